"""Run the scripted model as a process of its own, for end-to-end runs and benchmarks.

It ends on SIGTERM or SIGINT, and when the process that started it is gone. `GET /calls` answers the
number of calls by endpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path

from tests.scripted_model.scripts import Script, canary_script, empty_script, facts_script
from tests.scripted_model.server import ScriptedModel

_PARENT_CHECK_SECONDS = 1.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scripted_model", description=__doc__)
    parser.add_argument("--port-file", type=Path, help="where to write the port once it listens")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: a free one")
    parser.add_argument("--script", choices=("canary", "empty", "facts"), default="canary")
    parser.add_argument("--facts", type=Path, help="JSON lines for --script facts")
    parser.add_argument("--dimensions", type=int, default=1536)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before every answer")
    arguments = parser.parse_args()
    if arguments.script == "facts" and arguments.facts is None:
        parser.error("--script facts needs --facts FILE")
    return arguments


def _script(arguments: argparse.Namespace) -> Script:
    if arguments.script == "facts":
        return facts_script(arguments.facts)
    return canary_script if arguments.script == "canary" else empty_script


async def _run(arguments: argparse.Namespace) -> None:
    parent = os.getppid()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = ScriptedModel(
        _script(arguments),
        dimensions=arguments.dimensions,
        delay=arguments.delay,
        port=arguments.port,
    )
    async with server:
        if arguments.port_file is None:
            print(server.base_url, flush=True)
        else:
            # Renamed into place: a reader sees the whole number or no file.
            part = arguments.port_file.with_suffix(".part")
            part.write_text(str(server.port), "ascii")
            part.replace(arguments.port_file)
        while not stop.is_set() and os.getppid() == parent:
            try:
                async with asyncio.timeout(_PARENT_CHECK_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue


if __name__ == "__main__":
    asyncio.run(_run(_arguments()))
