"""Logs: one JSON object per line, with the ids of the current call or job, never with contents."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from hitherto_shared.rpc.call import maybe_current_call

logger = logging.getLogger("hitherto.uncaught")

_MAX_CHAIN = 10

job_id_of_task: ContextVar[str | None] = ContextVar("hitherto_job_id", default=None)
"""The job that a worker task is running, for its log lines."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record and whatever was passed in `extra`."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name that logging calls
        """The locations of an exception and its causes, without their messages.

        An exception's message is not ours: a driver quotes rows, a parser its input.
        """
        told: list[str] = []
        error, where = ei[1], ei[2]
        while error is not None and len(told) < _MAX_CHAIN:
            places = "".join(traceback.format_tb(where))
            told.append(f"{places}{_name(error)}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            where = error.__traceback__ if error is not None else None
        return "\nbehind it:\n".join(told)

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


class RedactedError(RuntimeError):
    """Replaces an error of which only the type is logged."""


def without_message(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """`exc_info` with the whole traceback, but only the type's name as text.

    The text of a driver's error may quote a user's row.
    """
    return RedactedError, RedactedError(type(error).__name__), error.__traceback__


def _name(error: BaseException) -> str:
    if isinstance(error, RedactedError):
        return str(error)
    sqlstate = getattr(error, "sqlstate", None)
    return type(error).__name__ + (f" (SQLSTATE {sqlstate})" if sqlstate else "")


def quiet_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Let `loop` log uncaught exceptions by type and location.

    By default it quotes the exception.
    """
    loop.set_exception_handler(_log_uncaught)


def _log_uncaught(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    task = context.get("task") or context.get("future")
    name = ""
    if isinstance(task, asyncio.Task):
        name = f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}"
    logger.error(
        "uncaught %s in background work",
        "fault" if error is None else _name(error),
        exc_info=None if error is None else without_message(error),
        # The loop's own message quotes the exception with the task; its first line does not.
        extra={"task": name, "said": str(context.get("message", "")).partition("\n")[0]},
    )


def configure_logging(service: str, level: str) -> None:
    """Send every log record of the process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("apscheduler", "httpx", "httpx2", "httpcore", "openai", "psycopg.pool"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
