"""The extraction service as a process: the command `hitherto-extraction`."""

from __future__ import annotations

import sys

from pydantic import ValidationError

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.wiring.base import NAME
from hitherto_extraction.wiring.service import running
from hitherto_shared.config import describe
from hitherto_shared.processes import ProcessSpread, serve_in_processes
from hitherto_shared.service_command import read_arguments, warn_of_unknown_variables
from hitherto_shared.startup import run_service
from hitherto_shared.telemetry import configure_logging


def main() -> None:
    """Serve until stopped by a signal."""
    read_arguments(
        "hitherto-extraction",
        "The extraction service: accepts conversations, extracts memories and runs upkeep.",
    )
    try:
        settings = ExtractionSettings()
    except ValidationError as error:
        print(f"{NAME}: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    configure_logging(NAME, settings.log_level, settings.log_format)
    warn_of_unknown_variables(ExtractionSettings)
    run_service(
        NAME,
        lambda: serve_in_processes(
            settings,
            settings.extraction_listen,
            ProcessSpread(
                "hitherto_extraction", "HITHERTO_WORKER_PROCESSES", settings.worker_processes
            ),
            lambda place: running(
                settings.model_copy(update={"extraction_listen": place.listen}),
                place.conninfo,
                processes=place.processes,
            ),
        ),
    )


if __name__ == "__main__":
    main()
