"""`hitherto up`, `down`, `demo`, `health`, `doctor`: Hitherto on this machine, and its state."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from hitherto_client.command.local_database import server_packages
from hitherto_client.command.options import Argument, Switch, connect
from hitherto_client.command.output import FAILED, OK, UNREACHABLE, Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import Column, show_rows
from hitherto_client.results import Health

_EXTRA = "hitherto[up]"


def _local(module: str) -> Any:
    """A module of what runs here, by its name: the client's packages may stand alone.

    Raises:
        UsageError: What it needs is not installed.
    """
    try:
        return import_module(f"hitherto_local.{module}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs {error.name}: pip install '{_EXTRA}', or without installing anything "
            f"uvx --from '{_EXTRA}' hitherto …"
        ) from None


def _up(_: argparse.Namespace, output: Output) -> int:
    def line(text: str) -> None:
        for each in text.splitlines():
            output.line(each)
        output.flush()

    def ready(running: dict[str, Any]) -> None:
        if output.as_json:
            output.document(running)
            output.flush()

    return _unless_refused(output, "run_up", output.note if output.as_json else line, ready)


def _down(_: argparse.Namespace, output: Output) -> int:
    return _unless_refused(output, "run_down", output.note)


def _unless_refused(output: Output, name: str, *told: Callable[..., None]) -> int:
    up = _local("up")
    try:
        return OK if getattr(up, name)(*told) else FAILED
    except up.LocalRefused as error:
        output.error(str(error))
        return FAILED


def _demo(options: argparse.Namespace, _: Output) -> int:
    code: int = _local("demo.telling").run_demo(
        tour=options.tour, file=options.transcripts, data_dir=options.data_dir
    )
    return code


HERE = (
    Command(
        "up",
        "Run the database, both services and the console here, until Ctrl-C.",
        run=_up,
        local=True,
    ),
    Command("down", "End what `hitherto up` runs.", run=_down, local=True),
    Command(
        "demo",
        "Learn from sample conversations, and show the result.",
        None,
        Switch("--tour", "the long form: every feature, in twelve sections"),
        Argument(
            "--transcripts",
            "your own conversations: JSON lines of transcripts, or plain `user: …` text",
            "FILE",
        ),
        Argument(
            "--data-dir", "its data folder (default: demo in the data folder)", "DIR", type=Path
        ),
        run=_demo,
        local=True,
    ),
)


def _state(health: Health) -> str:
    if not health.serving:
        return f"not serving ({health.status})"
    if health.without:
        return f"serving without {' and '.join(health.without)}"
    return "serving"


_NOTES = {
    "database": "the database does not answer: calls fail, and jobs wait, until it does; see the "
    "log of the service for the reason",
    "writes": "the database accepts no writes, as a standby does, or one with "
    "default_transaction_read_only: reads go on, writes fail and jobs wait; promote it, or let "
    "DATABASE_URL of the services name the primary",
    "storage": "the disk of the database is full: writes fail, and some reads, until it has room",
}
"""What to know of each thing that a service is without."""
_OF_MODELS = (
    "jobs that need it wait until it answers: `hitherto jobs --state failed` tells why it does "
    "not, and which settings to check"
)

_SERVICES = (
    "service",
    "address",
    Column("state", _state),
    Column("latency", lambda health: f"{health.seconds * 1000:.1f} ms", number=True),
)


def _health(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        found = list(client.health().values())
    services = [
        {
            "service": health.service,
            "address": health.address,
            "serving": health.serving,
            "status": health.status,
            "latency_ms": round(health.seconds * 1000, 2),
            "without": list(health.without),
        }
        for health in found
    ]
    output.result({"services": services}, lambda: show_rows(output, _SERVICES, found))
    down = [health for health in found if not health.serving]
    for health in down:
        output.error(
            f"the {health.service} service at {health.address} does not serve: start it with "
            f"`hitherto up`, or name its address with --{health.service}"
        )
    lacking = dict.fromkeys(name for health in found for name in health.without)
    for note in dict.fromkeys(_NOTES.get(name, _OF_MODELS) for name in lacking):
        output.note(note)
    return UNREACHABLE if down else OK


def _doctor(_: argparse.Namespace, output: Output) -> int:
    with server_packages():
        # By its name: the client's packages may stand alone, without those of a service.
        examine = import_module("hitherto_extraction.doctor").examine
        found = examine()
    output.result(
        {"findings": [asdict(each) for each in found]},
        lambda: show_rows(output, ("check", "state", "told"), found),
    )
    for each in found:
        if each.state == "fault":
            output.error(f"{each.check}: {each.remedy or each.told}")
        elif each.remedy:
            output.note(f"{each.check}: {each.remedy}")
    return FAILED if any(each.state == "fault" for each in found) else OK


COMMANDS = (
    Command("health", "Check whether both services are serving.", run=_health),
    Command(
        "doctor",
        "Check settings, models and database here, and say what to set.",
        run=_doctor,
    ),
)
