"""`hitherto doctor`: what is wrong with this installation, and what to set."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib import import_module

from hitherto_client.command.local_database import server_packages
from hitherto_client.command.output import FAILED, OK, Output
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import show_rows


def _run(_: argparse.Namespace, output: Output) -> int:
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
    Command(
        "doctor",
        "Check settings, models and database here, and say what to set.",
        run=_run,
    ),
)
