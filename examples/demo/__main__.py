"""Runs the demo: starts both services, submits conversations and shows the context.

    python -m examples.demo [--tour] [--transcripts FILE] [--data-dir DIR]

Exit code 0 when the story was told to its end, 1 when something failed, 2 for a file that cannot be
read, 130 after Ctrl-C. No process is left in any case.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from examples.demo.one_screen import tell_in_one_screen
from examples.demo.own_file import own_transcripts, tell_own
from examples.demo.place import choose_data_dir, demo_environment, shown
from examples.demo.services import ServiceFailed, running
from examples.demo.show import StoryPage, make_console
from examples.demo.story import Story, sample_transcripts, tell, tell_what_runs
from examples.demo.work import DemoRun, learn
from hitherto_client import HithertoCallError
from hitherto_client.transcripts import FileTranscript, TranscriptError
from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.database.embedded import EmbeddedPostgresError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="Show what Hitherto does, on sample conversations or on your own.",
    )
    parser.add_argument(
        "--tour", action="store_true", help="the long form: every feature, in twelve sections"
    )
    parser.add_argument(
        "--transcripts",
        metavar="FILE",
        help="your own conversations: JSON lines of transcripts, or plain `user: …` text",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data folder (default: .hitherto/demo here, else in the default data folder)",
    )
    return parser.parse_args()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Entry point; see the module docstring. Returns the exit code."""
    arguments = _arguments()
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
        transcripts = (
            own_transcripts(arguments.transcripts)
            if arguments.transcripts
            else sample_transcripts()
        )
        data_dir = arguments.data_dir or choose_data_dir(SharedSettings())
        form = tell if arguments.tour else tell_in_one_screen
        _run(transcripts, data_dir, environment, tell_own if arguments.transcripts else form)
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
        if form is not tell_in_one_screen:
            tell_what_runs(page, services)
        work = learn(services.client, [run.own(item) for item in transcripts], page.console)
        story = Story(page, services, run, work)
        form(story)
        dead = [item for item in work.learnt if not item.succeeded]
        if dead:
            raise ServiceFailed(
                f"{len(dead)} of {len(work.learnt)} conversations could not be processed, the "
                f"first because: {dead[0].job.error or 'its job was cancelled'}"
            )
    page.chapter("Next steps")
    if form is tell_in_one_screen:
        page.item("make tour: the long form, from contradictions to planted instructions")
    page.item("make demo TRANSCRIPTS=path: the same with conversations of your own")
    page.item("make run: both services in the foreground, for the command line and for Python")
    page.item("README.md: a tour by hand; docs/README.md: all documentation")
    page.item(f"the data of this run is in {shown(data_dir)}; delete that folder to begin anew")


if __name__ == "__main__":
    sys.exit(main())
