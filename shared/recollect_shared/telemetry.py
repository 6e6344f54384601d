"""Logs: one JSON object a line, with the ids of the call or job at hand, never with contents."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType

from recollect_shared.rpc.call import maybe_current_call

job_id_of_task: ContextVar[str | None] = ContextVar("recollect_job_id", default=None)
"""The job a worker task is running, so that its log lines can be found."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record and whatever was passed in `extra`."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (call := maybe_current_call()) is not None:
            line["request_id"] = call.request_id
        if (job_id := job_id_of_task.get()) is not None:
            line["job_id"] = job_id
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def without_message(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """`exc_info` with the whole traceback and no text but the type's name.

    The text of a driver's error may quote a user's row.
    """
    return RuntimeError, RuntimeError(type(error).__name__), error.__traceback__


def configure_logging(service: str, level: str) -> None:
    """Send every log record of the process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("apscheduler", "httpx", "httpx2", "httpcore", "openai", "psycopg.pool"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
