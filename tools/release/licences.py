"""Every package that an installation brings, and whether its licence allows that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tools.release.running import NotReleasable, run

_SBOM_TOOL = "cyclonedx-bom>=7.5,<8"

# Licences that allow an Apache-2.0 work to depend on theirs. The LGPL and the MPL cover the library
# itself, which we import and do not change.
ALLOWED = frozenset(
    """
    0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CNRI-Python ISC LGPL-3.0-only
    LGPL-3.0-or-later MIT MIT-0 MIT-CMU MPL-2.0 PostgreSQL PSF-2.0 Python-2.0 Python-2.0.1
    Unicode-3.0 Unlicense Zlib
    """.split()
)

# What metadata says in other words than SPDX's.
SPDX_OF = {"License :: OSI Approved :: Apache Software License": "Apache-2.0"}

# Packages whose metadata names none, or not which: the licence file in their wheel.
DECLARED = {"Jinja2": "BSD-3-Clause", "protobuf": "BSD-3-Clause"}


def licences(component: dict[str, object]) -> Iterator[str]:
    """The SPDX ids, expressions or names that a component of the SBOM declares."""
    declared = component.get("licenses", [])
    assert isinstance(declared, list)
    for entry in declared:
        if "expression" in entry:
            yield str(entry["expression"])
        else:
            named = str(entry["license"].get("id") or entry["license"].get("name"))
            yield SPDX_OF.get(named, named)


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression can be satisfied with allowed licences alone.

    Alternatives (`A OR B`) need one allowed side, combinations (`A AND B`) need both; an exception
    (`WITH …`) only widens a licence.
    """
    flat = expression.replace("(", " ").replace(")", " ")
    if "(" in expression and " OR " in expression and " AND " in expression:
        # Mixed and nested: every licence in it must be allowed.
        names = flat.replace(" OR ", " AND ").split(" AND ")
        return all(name.split(" WITH ")[0].strip() in ALLOWED for name in names)
    return any(
        all(name.split(" WITH ")[0].strip() in ALLOWED for name in side.split(" AND "))
        for side in flat.split(" OR ")
    )


def check_licences(sbom: Path) -> int:
    """Raise NotReleasable for a package without an allowed licence.

    Returns:
        The number of packages checked.
    """
    components = json.loads(sbom.read_text("utf-8"))["components"]
    refused = []
    for component in components:
        name = str(component["name"])
        named = [DECLARED[name]] if name in DECLARED else list(licences(component))
        if not any(is_allowed(one) for one in named):
            refused.append(
                f"{name} {component.get('version', '')}: {', '.join(named) or 'none named'}"
            )
    if refused:
        raise NotReleasable(
            "these packages have no licence on the list of tools/release/licences.py:\n  "
            + "\n  ".join(refused)
        )
    return len(components)


def write_sbom(environment: Path, sbom: Path) -> None:
    """Write the packages of the environment, with licences, as CycloneDX JSON."""
    run(
        "uv", "tool", "run", "--quiet", "--from", _SBOM_TOOL, "cyclonedx-py", "environment",
        "--output-reproducible", "--output-format", "JSON", "--output-file", str(sbom),
        str(environment / "bin" / "python"),
    )  # fmt: skip
