"""Logs: lines with the ids of the current call or job, never with contents.

A line is a JSON object, or readable text if a person watches the terminal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

from hitherto_shared import tracing
from hitherto_shared.recurring_lines import RecurringLines
from hitherto_shared.rpc.call import current_request_id

logger = logging.getLogger("hitherto.uncaught")

_MAX_CHAIN = 10

job_id_of_task: ContextVar[str | None] = ContextVar("hitherto_job_id", default=None)
"""The job that a worker task is running, for its log lines."""

LogFormat = Literal["auto", "json", "text"]
"""How lines look; `auto` is text on a terminal and JSON elsewhere."""

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
        parts: list[str] = []
        error, where = ei[1], ei[2]
        while error is not None and len(parts) < _MAX_CHAIN:
            places = "".join(traceback.format_tb(where))
            parts.append(f"{places}{_name(error)}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            where = error.__traceback__ if error is not None else None
        return "\nbehind it:\n".join(parts)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
            **self.facts(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _json(line)

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """The ids of the current call and job, and what was passed in `extra`."""
        facts: dict[str, object] = {}
        if (request_id := current_request_id()) is not None:
            facts["request_id"] = request_id
        if (job_id := job_id_of_task.get()) is not None:
            facts["job_id"] = job_id
        if (tracer := tracing.tracer()) is not None:
            facts.update(tracer.ids())
        facts.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        return facts


class TextFormatter(JsonFormatter):
    """Formats the same as text: time, level, message, then the facts as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of text; an exception follows in further lines."""
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        facts = [f"{name}={_shown(value)}" for name, value in self.facts(record).items()]
        line = " ".join([at, f"{record.levelname:<7}", _visible(record.getMessage()), *facts])
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(value: object) -> str:
    text = _visible(value if isinstance(value, str) else _json(value))
    return f'"{text}"' if not text or " " in text else text


def _visible(text: str) -> str:
    """The text with escapes in place of what could change how a terminal shows other text."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


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


def configure_logging(service: str, level: str, form: LogFormat = "auto") -> None:
    """Send the log records of the process to standard error, recurring ones with their number."""
    text = form == "text" or (form == "auto" and sys.stderr.isatty())
    formatter = (TextFormatter if text else JsonFormatter)(service)
    handler = RecurringLines(formatter, formatter.facts)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("apscheduler", "httpx", "httpx2", "httpcore", "openai", "psycopg.pool"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
