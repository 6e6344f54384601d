"""`hitherto up`, everything of one installation in one terminal, and `hitherto down`, its end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
from pydantic import ValidationError

from hitherto_local.starting import (
    CONSOLE,
    DRAIN_SECONDS,
    MCP,
    LocalProcess,
    Part,
    complaint,
    environment_for,
    metrics_of,
    parts,
    stop,
    taken_by,
)
from hitherto_local.state_file import AlreadyRunning, UpState, claimed, find_running
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.embedded import EmbeddedPostgresError, default_data_dir
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.lifeline import arguments

_LOOK_SECONDS = 0.1
_AFTER_DRAIN_SECONDS = 25.0
"""For what follows the drain of calls: caches, pools, and the database itself."""
_TOLD_HERE = ("authentication is off", "no language model is configured")
"""Warnings of what `up` says itself."""

_MOST_SAID = 1_000

Say = Callable[[str], None]


class LocalRefused(Exception):
    """It cannot be done; the message says why and what to do."""


class Endings:
    """Why the command should end: signals, its terminal, the process that started it."""

    def __init__(self) -> None:
        self.why = ""
        """Empty while it goes on."""
        self.urgent = False
        """Somebody asked again: nothing is waited for."""
        # `nohup` and the like: meant to outlive the terminal and the shell.
        self._stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self._parent = os.getppid()

    def look(self) -> bool:
        """Whether to end."""
        if not self.why and not self._stays and os.getppid() != self._parent:
            self.why = "the process that started it is gone"
        return bool(self.why)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.why:
            # The terminal that sends Ctrl-C may close next; only a person asks twice.
            self.urgent = number != signal.SIGHUP
        names = {signal.SIGINT: "Ctrl-C", signal.SIGHUP: "its terminal is gone"}
        self.why = self.why or names.get(signal.Signals(number), "asked to end")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note signals instead of obeying them meanwhile."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if not self._stays:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._received) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Up:
    """The processes of one `hitherto up`."""

    def __init__(self, settings: SharedSettings, environment: Mapping[str, str], say: Say) -> None:
        self._settings = settings
        self._folder = DataFolderLayout.prepare(settings.data_dir).folder
        self._environment = dict(environment) | {"HITHERTO_DATA_DIR": str(self._folder)}
        self._say = say
        self._parts = parts(environment)
        self._processes: dict[str, LocalProcess] = {}
        self._said: set[str] = set()
        self._endings = Endings()
        self._began = time.monotonic()

    def run(self, ready: Callable[[UpState], None]) -> bool:
        """Start everything and keep it until somebody asks for the end.

        Returns:
            False if a part ended by itself.

        Raises:
            LocalRefused: Nothing was started.
        """
        try:
            with claimed(self._folder) as tell, self._endings.watched():
                tell(UpState.of_this_process())
                self._require_free_ports()
                database = "embedded Postgres" if self._settings.embedded else "DATABASE_URL"
                self._say(f"starting on {self._folder} ({database}) …")
                return self._keep(tell, ready)
        except AlreadyRunning as found:
            raise LocalRefused(_where(found.running, self._folder)) from None
        except OSError as error:
            raise LocalRefused(f"{self._folder} cannot be used ({error.strerror})") from None

    def _require_free_ports(self) -> None:
        for part in self._parts:
            if (who := taken_by(part.listen)) is not None:
                host, _, port = part.listen.rpartition(":")
                raise LocalRefused(
                    f"{part.listen} is taken by {who}: end it, or choose another address for the "
                    f"{part.name}, such as {part.variable}={host}:{int(port) + 10}"
                )

    def _keep(self, tell: Callable[[UpState], None], ready: Callable[[UpState], None]) -> bool:
        reading, writing = os.pipe()
        told = False
        try:
            while not self._endings.look():
                self._start_what_can(reading)
                self._hear()
                if any(process.ended for process in self._processes.values()):
                    break
                if not told and self._all_serve:
                    told = True
                    running = UpState.of_this_process(self.addresses())
                    tell(running)
                    self._tell_ready()
                    ready(running)
                time.sleep(_LOOK_SECONDS)
            return self._explain_end()
        finally:
            self._stop()
            os.close(writing)
            os.close(reading)

    @property
    def _all_serve(self) -> bool:
        started = self._processes.values()
        return len(started) == len(self._parts) and all(each.port for each in started)

    def addresses(self) -> dict[str, str]:
        """Where each part can be reached, as far as that is known."""
        found: dict[str, str] = {}
        for part in self._parts:
            process = self._processes.get(part.name)
            port = process.port if process else 0
            if port or part.has_known_address:
                found[part.name] = part.reached_at(port)
        return found

    def _start_what_can(self, lifeline: int) -> None:
        known = self.addresses()
        for part in self._parts:
            if part.name in self._processes:
                continue
            if part.name == "console" and not {"retrieval", "extraction"} <= known.keys():
                continue
            self._processes[part.name] = LocalProcess.start(
                part.name,
                part.module,
                self._folder / f"{part.name}.log",
                environment_for(
                    part,
                    self._environment,
                    {name: known[name] for name in ("retrieval", "extraction") if name in known},
                ),
                arguments=arguments(lifeline),
                keep=[lifeline],
            )

    def _hear(self) -> None:
        """Say which part serves now, and what parts complain of: the same only once."""
        for part in self._parts:
            process = self._processes.get(part.name)
            if process is None:
                continue
            served = process.port
            for line in process.new_lines():
                if told := self._shown(line):
                    self._say(f"{part.name}: {told}")
            if process.port and not served:
                self._tell_serving(part, process)

    def _shown(self, line: str) -> str:
        if self._environment.get("HITHERTO_LOG_FORMAT"):
            # Who chooses a format wants to read all of it.
            return line
        told = complaint(line)
        if told in self._said or any(each in told for each in _TOLD_HERE):
            return ""
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said.add(told)
        return told

    def _tell_serving(self, part: Part, process: LocalProcess) -> None:
        address = part.reached_at(process.port)
        if part.name == "console":
            address = f"http://{address}{CONSOLE}"
        self._say(f"  {part.name:<11} {address:<15}  {_with(part, process)}".rstrip())

    def _tell_ready(self) -> None:
        for name, listen in metrics_of(self._environment).items():
            self._say(f"  {'metrics':<11} http://{listen}/metrics   of the {name} service")
        addresses = self.addresses()
        self._say(
            f"ready in {time.monotonic() - self._began:.1f} s; Ctrl-C or `hitherto down` ends it. "
            "In another terminal, try:"
        )
        command = typed_here()
        usual = {part.name: part.reached_at(0) for part in parts({})}
        other = [
            f"HITHERTO_{name.upper()}_ADDRESS={addresses[name]}"
            for name in ("retrieval", "extraction")
            if addresses[name] != usual[name]
        ]
        if self._folder != default_data_dir().resolve():
            # `down` and `keys` find what runs here by it.
            self._say(f"  export HITHERTO_DATA_DIR={shlex.quote(str(self._folder))}")
        if other:
            self._say(f"  export {' '.join(other)}")
        if credential := self._credential(command):
            self._say(f"  export {credential}")
        self._say(f'  {command} save ana "Ana lives in Porto."')
        self._say(f'  {command} context ana "Where does she live?"')
        self._say(f"  {command} demo")

    def _credential(self, command: str) -> str:
        """What sets the credential that calls need here; empty if they need none."""
        modes = {self._settings.auth_mode(part.listen) for part in self._parts[:2]}
        if "jwt" in modes:
            return "HITHERTO_TOKEN=…  # a token of your identity provider"
        if "api-key" not in modes:
            return ""
        # The key is made in the database, which the other terminal must find. Its address may
        # contain a password.
        where = "" if self._settings.embedded else "DATABASE_URL=… "
        return f"HITHERTO_API_KEY=$({where}{command} keys create --name first)"

    def _explain_end(self) -> bool:
        """Say why it ends; False if a part ended by itself."""
        if self._endings.why:
            self._say(f"ending: {self._endings.why}")
            return True
        self._hear()
        for process in self._processes.values():
            if process.ended:
                self._say(process.last_words(self._said))
        return False

    def _stop(self) -> None:
        drain = float(self._environment.get("HITHERTO_DRAIN_SECONDS") or DRAIN_SECONDS)
        stop(
            list(self._processes.values()),
            drain + _AFTER_DRAIN_SECONDS,
            self._folder if self._settings.embedded else None,
            hurried=lambda: self._endings.urgent,
        )


def _with(part: Part, process: LocalProcess) -> str:
    """What a part works with."""
    if part.name == "retrieval":
        return f"embedder: {process.ready.get('embedder', '')}"
    if part.name == "extraction":
        model = process.ready.get("model")
        rules = "rules; set OPENAI_API_KEY for a model"
        return rules if process.ready.get("extractor") == "offline" else f"model: {model}"
    return f"also HTTP (/docs), MCP ({MCP})"


def typed_here() -> str:
    """How the command is typed here: `make` runs it without activating its environment."""
    if shutil.which("hitherto"):
        return "hitherto"
    beside = Path(sys.executable).with_name("hitherto")
    return os.path.relpath(beside) if beside.exists() else f"{sys.executable} -m hitherto_client"


def _where(running: UpState | None, folder: Path) -> str:
    """What runs already, and how to end it."""
    if running is None:
        return f"another `hitherto up` begins on {folder}"
    since = datetime.fromtimestamp(running.started).strftime("%H:%M")
    parts = ", ".join(f"{name} {address}" for name, address in running.addresses.items())
    return (
        f"it runs already on {folder}, as process {running.pid} since {since}"
        f"{f' ({parts})' if parts else ''}; `hitherto down` ends it, and HITHERTO_DATA_DIR names "
        "another folder"
    )


_END_SECONDS = 60.0


def run_up(say: Callable[[str], None], ready: Callable[[dict[str, Any]], None]) -> bool:
    """Run everything until somebody asks for the end; False if a part ended by itself.

    `ready` is called with what runs, once everything serves.

    Raises:
        LocalRefused: Nothing was started.
    """
    if sys.platform == "win32":
        raise LocalRefused("`hitherto up` needs Linux or macOS: start both services by themselves")
    try:
        up = Up(SharedSettings(), os.environ, say)
        return up.run(lambda running: ready(asdict(running)))
    except ValidationError as error:
        raise LocalRefused(describe(error)) from None
    except EmbeddedPostgresError as error:
        raise LocalRefused(str(error)) from None


def run_down(say: Callable[[str], None]) -> bool:
    """End what runs on the data folder; False if nothing does.

    Raises:
        LocalRefused: It does not end, or belongs to another user.
    """
    try:
        folder = SharedSettings().data_dir
    except ValidationError as error:
        raise LocalRefused(describe(error)) from None
    running = find_running(folder)
    process = running.process() if running else None
    if running is None or process is None:
        say(f"nothing runs on {folder}")
        return False
    try:
        process.send_signal(signal.SIGTERM)
        give_up = time.monotonic() + _END_SECONDS
        while running.process() is not None and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > give_up:
                raise LocalRefused(f"process {running.pid} has not ended in {_END_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        raise LocalRefused(f"process {running.pid} belongs to another user") from None
    say(f"ended process {running.pid}, which ran on {folder}")
    return True
