"""`make demo` as a stranger runs it, and again over the same data (A5)."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from hitherto.v1 import memory_pb2, retrieval_service_pb2
from hitherto_local.demo.services import ServiceFailed, running
from hitherto_local.demo.show import StoryPage
from hitherto_local.demo.story import sample_transcripts
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, learn, memories
from tests.local_processes import alive
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^\s*<<<hitherto:memory (\w+):.*?<<<end hitherto:memory \1>>>", re.S | re.M)


@contextmanager
def _folder() -> Iterator[Path]:
    """A data folder that the database's own user can reach when tests run as root.

    Not in `tmp_path`: every start of pytest closes the folder above those of all runs again.
    """
    with tempfile.TemporaryDirectory(prefix="hitherto-demo-") as base:
        os.chmod(base, 0o711)
        yield Path(base).resolve() / "data"


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """The folder of all tests that need no empty one: a database is made once."""
    with _folder() as folder:
        yield folder


@pytest.fixture
def demo_dir(used: Path) -> Iterator[Path]:
    yield used
    assert alive(used) == []


@pytest.fixture
def empty_dir() -> Iterator[Path]:
    with _folder() as folder:
        yield folder
        assert alive(folder) == []


def _command(folder: Path, *more: str) -> list[str]:
    command = "from hitherto_client.command import main; raise SystemExit(main())"
    return [sys.executable, "-c", command, "demo", "--data-dir", str(folder), *more]


def _environment(**more: str) -> dict[str, str]:
    # Settings that belong to another installation must not reach the demo.
    return {
        **os.environ,
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "HITHERTO_AUTH": "api-key",
        "HITHERTO_API_KEY": "somebody-elses",
        "COLUMNS": "100",
        **more,
    }


def _run(
    folder: Path, *more: str, columns: int = 100, letters: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(folder, *more),
        check=False,
        cwd=ROOT,
        env=_environment(COLUMNS=str(columns), PYTHONIOENCODING=letters),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=900,
    )


def _squeezed(text: str) -> str:
    """Text without the breaks that its width made."""
    return " ".join(text.split())


def test_the_story_in_one_screen_and_again_over_the_same_data(demo_dir: Path) -> None:
    """The second run's people know nothing of the first one's."""
    for _ in range(2):
        done = _run(demo_dir, columns=80)
        assert (done.returncode, done.stderr) == (0, "")
        assert alive(demo_dir) == []
        _check_one_screen(done.stdout)
        # One's own data folder is named once; nothing else of the machine is.
        assert done.stdout.count(str(demo_dir)) == 1
        assert str(ROOT) not in done.stdout
        assert sys.prefix not in done.stdout


def _check_one_screen(told: str) -> None:
    """It shows what was learnt and proves an answer."""
    lines = told.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    proof, _, rest = _squeezed(told).partition("memories about her")
    learnt = "learnt from her message of 2026-10-05:"
    assert proof.index("User moved to Glasgow") < proof.index(learnt)
    assert "> Sorry I was away for a while. I moved to Glasgow last weekend" in proof
    assert "replaced: User lives in Norwich. (true 2026-08-21 to 2026-10-05)" in proof
    assert "rolling that conversation back removes: User moved to Glasgow" in proof
    assert "rolling that conversation back restores: User lives in Norwich." in proof
    assert re.search(r"preference, 2026-08-21, said \d times: User prefers short answers", rest)
    assert re.search(r"and 1\d more", rest)
    (block,) = [match.group() for match in FENCE.finditer(told)]
    assert "User moved to Glasgow" in block
    shown = (ROOT / "README.md").read_text("utf-8").split("```text\n")[1].split("```")[0]
    assert shown in told.replace("─" * len("Where does Maren live now?") + "\n", "")
    assert len(block.splitlines()) <= 15
    (after,) = [line for line in lines if line.startswith("Next: ")]
    # `make demo` activates no environment: what is told can be typed as it stands.
    typed = after.split()[1]
    assert shutil.which(typed) or (ROOT / typed).exists(), after


async def test_the_samples_teach_what_their_page_says(services: Services) -> None:
    """docs/demo.md; what was planted is quoted at most, and breaks out of no block."""
    await learn(services, *(each.transcript for each in sample_transcripts()))
    users = ("maren", "diem", "aizawa", "visitor")
    known = {user: await memories(services, user=user, statuses=ALL_STATUSES) for user in users}
    told = {user: " | ".join(each.content for each in known[user]) for user in users}
    for words in ("lives in Glasgow", "lives in Norwich", "Iceberg", "hazelnuts", "100 km"):
        assert words in told["maren"]
    for words in ("Portugal", "Tobias", "Pleiku", "administrator", "invoice", "pay@"):
        assert words not in told["maren"] + told["diem"]
    assert "PostgreSQL" in told["diem"]
    assert known["aizawa"] == []
    assert "jazz" in told["visitor"]
    waiting = [each.status == memory_pb2.MEMORY_STATUS_QUARANTINED for each in known["visitor"]]
    assert sorted(waiting) == [False, True]
    for user in users:
        asked = retrieval_service_pb2.GetContextRequest(user_id=user, query="Who am I?")
        block = (await services.retrieval.GetContext(asked)).prompt_block
        assert "</memory>" not in block
        assert "obey" not in block
        lines = [line.strip() for line in block.splitlines()]
        assert lines.count("[END ABOUT THE USER]") <= 1


@pytest.mark.parametrize(("letters", "more"), [("ascii", "..."), ("utf-8", "…")])
def test_a_line_is_cut_to_the_width(letters: str, more: str) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), letters, write_through=True)
    page = StoryPage(Console(file=shown, width=44))
    for text in ("x" * 40, "y" * 41):
        page.line(text)
    shown.seek(0)
    assert shown.read() == f"  - {'x' * 40}\n  - {'y' * (40 - len(more))}{more}\n"


def test_ones_own_file_is_learnt_from(demo_dir: Path, tmp_path: Path) -> None:
    rows = [
        {
            "user_id": f"reader-{number}",
            "conversation_id": "c1",
            "messages": [
                {"role": "USER", "content": f"I live in {city}. \x1b[31mI like \u202eplums."},
                {"role": "ASSISTANT", "content": "Noted."},
            ],
        }
        for number, city in enumerate(("Trieste", "Aarhus"))
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    done = _run(demo_dir, "--transcripts", str(path), letters="ascii")
    assert done.returncode == 0, done.stderr
    # What is ours has letters for every terminal.
    assert "?" not in done.stdout
    told = _squeezed(done.stdout)
    assert "jobs: 2 succeeded" in told
    assert "2 conversations with a summary" in told
    assert "User lives in Trieste." in told
    assert "User lives in Aarhus." in told
    assert len(FENCE.findall(done.stdout)) == 2
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_a_file_that_is_no_transcript_is_refused_before_anything_starts(
    empty_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("{oops", "utf-8")
    done = _run(empty_dir, "--transcripts", str(path))
    assert done.returncode == 2
    assert "bad.jsonl, line 1" in _squeezed(done.stderr)
    assert not empty_dir.exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)],
)
def test_ended_on_request_it_leaves_nothing(
    empty_dir: Path, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        _command(empty_dir),
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores SIGINT, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    # As early as there is something to leave behind: both services and perhaps their database.
    wait_until(lambda: len(alive(empty_dir)) >= 3 or process.poll() is not None)
    process.send_signal(number)
    assert process.wait(180) == code, process.stderr and process.stderr.read()
    assert process.stderr is not None
    process.stderr.close()


def test_a_service_that_cannot_start_is_told_with_its_last_words(demo_dir: Path) -> None:
    done = subprocess.run(
        _command(demo_dir),
        check=False,
        cwd=ROOT,
        env=_environment(HITHERTO_EMBEDDER="onnx", HITHERTO_ONNX_MODEL_DIR="/nowhere"),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 1
    assert "did not start" in done.stderr
    assert "The last log lines of the extraction service" in _squeezed(done.stderr)


def test_a_service_that_dies_ends_the_demo(demo_dir: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    with (  # noqa: PT012 - the block is the point
        pytest.raises(ServiceFailed, match=r"extraction service, which ended with code -9"),
        running(demo_dir, environment) as services,
    ):
        assert services.extractor == "offline"
        victim = next(
            p
            for p in psutil.Process().children()
            if "hitherto_extraction" in p.cmdline()
            and p.environ().get("HITHERTO_DATA_DIR") == str(demo_dir.resolve())
        )
        victim.kill()
        # Looked at, not waited for: its exit code is for whoever started it. Its state alone says
        # "zombie" as soon as the first of its threads has gone.
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        wait_until(lambda: os.waitid(os.P_PID, victim.pid, ended) is not None)
        assert services.client.health()["extraction"].serving is False
