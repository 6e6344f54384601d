"""The extraction service as a process: the command `hitherto-extraction`."""

from __future__ import annotations

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.databases import NAME
from hitherto_extraction.wiring.service import running
from hitherto_shared.service_command import run_command


def main() -> None:
    """Serve until stopped by a signal."""
    run_command(
        NAME,
        "The extraction service: accepts conversations, extracts memories and runs upkeep.",
        ExtractionSettings,
        running,
        listen="extraction_listen",
        processes="worker_processes",
    )


if __name__ == "__main__":
    main()
