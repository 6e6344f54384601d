"""`hitherto health` and `doctor`: whether the services serve, and what is wrong if they do not."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib import import_module

from hitherto_client.command.local_database import server_packages
from hitherto_client.command.options import connect
from hitherto_client.command.output import FAILED, OK, UNREACHABLE, Output
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import Column, show_rows
from hitherto_client.results import Health


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
