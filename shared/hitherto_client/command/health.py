"""`hitherto health`: whether both services answer."""

from __future__ import annotations

import argparse

from hitherto_client.command.options import connect
from hitherto_client.command.output import OK, UNREACHABLE, Output
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import Column, show_rows
from hitherto_client.results import Health


def _state(health: Health) -> str:
    if not health.serving:
        return f"not serving ({health.status})"
    if health.without:
        return f"serving without {' and '.join(health.without)}"
    return "serving"


_SERVICES = (
    "service",
    "address",
    Column("state", _state),
    Column("latency", lambda health: f"{health.seconds * 1000:.1f} ms", number=True),
)


def _run(options: argparse.Namespace, output: Output) -> int:
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
    if any("storage" in health.without for health in found):
        output.note(
            "the disk of the database is full: writes fail, and some reads, until it has room"
        )
    if any({*health.without} - {"storage"} for health in found):
        output.note(
            "jobs that need it wait until it answers: `hitherto jobs --state failed` tells why it "
            "does not, and which settings to check"
        )
    return UNREACHABLE if down else OK


COMMANDS = (Command("health", "Check whether both services are serving.", run=_run),)
