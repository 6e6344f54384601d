"""The extraction service as a process: the command `recollect-extraction`."""

from __future__ import annotations

import sys

from pydantic import ValidationError

from recollect_extraction.config import ExtractionSettings
from recollect_extraction.wiring.databases import NAME
from recollect_extraction.wiring.service import running
from recollect_shared.config import describe
from recollect_shared.processes import Spread, serve_in_processes
from recollect_shared.startup import run_service
from recollect_shared.telemetry import configure_logging


def main() -> None:
    """Serve until told to end."""
    try:
        settings = ExtractionSettings()
    except ValidationError as error:
        print(f"{NAME}: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    configure_logging(NAME, settings.log_level)
    run_service(
        NAME,
        lambda: serve_in_processes(
            settings,
            settings.extraction_listen,
            Spread("recollect_extraction", "RECOLLECT_WORKER_PROCESSES", settings.worker_processes),
            lambda place: running(
                settings.model_copy(update={"extraction_listen": place.listen}),
                place.conninfo,
                processes=place.processes,
            ),
        ),
    )


if __name__ == "__main__":
    main()
