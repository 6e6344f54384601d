"""Runs the demo: starts both services, submits conversations and shows the result.

What `hitherto demo` calls. Exit code 0 when the story was told to its end, 1 when something failed,
2 for a file that cannot be read, 130 after Ctrl-C. No process is left in any case.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from hitherto_client import HithertoCallError
from hitherto_client.transcripts import FileTranscript, TranscriptError
from hitherto_local.demo.services import ServiceFailed, running
from hitherto_local.demo.short_stories import own_transcripts, tell_in_one_screen, tell_own
from hitherto_local.demo.show import StoryPage, make_console
from hitherto_local.demo.story import Story, sample_transcripts
from hitherto_local.demo.work import DemoRun, learn
from hitherto_local.up import typed_here
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.embedded import EmbeddedPostgresError, default_data_dir

_OURS = ("HITHERTO_", "MAX_CONTEXT_", "DATABASE_URL")
_HEARD = frozenset(
    {
        "HITHERTO_EXTRACTOR",
        "HITHERTO_EMBEDDER",
        "HITHERTO_ONNX_MODEL_DIR",
        "HITHERTO_MODEL_TIMEOUT_SECONDS",
        "HITHERTO_PRICES_FILE",
    }
)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def run_demo(*, file: str | None, data_dir: Path | None) -> int:
    """Tell the story; returns the exit code.

    `file` holds conversations to learn from instead of the samples.
    """
    complaints = make_console(errors=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show every language shows what it can.
            stream.reconfigure(errors="replace")
    environment = demo_environment(os.environ)
    # This process is a client and must not bring another installation's credential either.
    os.environ.clear()
    os.environ.update(environment)
    try:
        transcripts = own_transcripts(file) if file else sample_transcripts()
        folder = data_dir or choose_data_dir(SharedSettings())
        _run(transcripts, folder, environment, tell_own if file else tell_in_one_screen)
    except TranscriptError as error:
        complaints.print(f"demo: {error}", markup=False, style="red")
        return 2
    except ValidationError as error:
        complaints.print(f"demo: {describe(error)}", markup=False, style="red")
        return 2
    except (ServiceFailed, EmbeddedPostgresError, HithertoCallError, OSError) as error:
        complaints.print(f"demo: {error}", markup=False, style="red")
        return 1
    except KeyboardInterrupt:
        complaints.print("demo: ended on request; both services have stopped", markup=False)
        return 130
    return 0


def _run(
    transcripts: list[FileTranscript],
    data_dir: Path,
    environment: dict[str, str],
    form: Callable[[Story], None],
) -> None:
    page = StoryPage(make_console())
    run = DemoRun()
    page.say("Hitherto: conversations in, memories kept, context out.", "bold")
    with running(data_dir, environment) as services:
        work = learn(services.client, [run.own(item) for item in transcripts], page.console)
        story = Story(page, services, run, work)
        form(story)
        dead = [item for item in work.learnt if not item.job.succeeded]
        if dead:
            raise ServiceFailed(
                f"{len(dead)} of {len(work.learnt)} conversations could not be processed, the "
                f"first because: {dead[0].job.error or 'its job was cancelled'}"
            )
    page.say(f"Next: {typed_here()} up, or demo with --transcripts YOUR_FILE")
    page.say(f"The data of this run is in {data_dir}.")


def demo_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the services: which models to use is heard, everything else is ours.

    One's own database, credentials and limits belong to another installation: the demo neither
    writes there nor lets them change its story.
    """
    heard = {
        name: value
        for name, value in environment.items()
        if name in _HEARD or not name.startswith(_OURS)
    }
    # What the demo remembers may be lost with a container.
    return {**heard, "HITHERTO_REQUIRE_DATABASE_URL": "false"}


def choose_data_dir(settings: SharedSettings) -> Path:
    """The demo's own data folder.

    Each embedding model has a folder: vectors of two models cannot be compared, so that a database
    keeps to the one that it began with.
    """
    return default_data_dir() / "demo" / _slug(settings)


def _slug(settings: SharedSettings) -> str:
    chosen = settings.chosen_embedder
    parts: list[str] = [chosen]
    if chosen == "openai":
        parts += [settings.embedding_model, str(settings.embedding_dimensions or "")]
    elif chosen == "onnx":
        parts.append(settings.onnx_model_dir.name if settings.onnx_model_dir else "")
    return re.sub(r"[^\w.-]+", "_", "-".join(part for part in parts if part))
