"""Writes the table of docs/metrics.md from the metrics of the services.

python -m tools.metrics_docs
"""

from __future__ import annotations

from pathlib import Path

from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from hitherto_shared import metrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

METRICS = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]

_GENERATED = "This table is generated from the code by `make metrics-docs`.\n\n"


def page() -> str:
    """The page as it stands, with its table made anew."""
    rows = ["| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        (family,) = metric.describe()
        name = f"{family.name}_total" if isinstance(metric, Counter) else family.name
        labels = ", ".join(f"`{label}`" for label in metric._labelnames) or "none"
        rows.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    written, marker, _ = PAGE.read_text("utf-8").partition(_GENERATED)
    assert marker, f"{PAGE.name} lacks the line above its table"
    return written + marker + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
