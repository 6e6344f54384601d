"""`make demo` as a stranger runs it: the whole story, and again over the same data (A5)."""

from __future__ import annotations

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

from hitherto_local.demo.services import ServiceFailed, running
from hitherto_local.demo.story import questions
from tests.local_processes import alive
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^\s*<<<hitherto:memory (\w+):.*?<<<end hitherto:memory \1>>>", re.S | re.M)
CHAPTERS = [
    "1. What runs", "2. What was learnt", "3. What was merged, contradicted, reached and decided",
    "4. Three use cases", "5. The planted instructions", "6. Search, explained",
    "7. When the embedder is away", "8. What was true then",
    "9. What was said, and what was just spoken of", "10. What the assistant is told", "11. Upkeep",
    "12. Time and cost", "Next steps",
]  # fmt: skip


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


def _run(folder: Path, *more: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(folder, *more),
        check=False,
        cwd=ROOT,
        env=_environment(COLUMNS=str(columns)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=900,
    )


def _squeezed(text: str) -> str:
    """Text without the breaks that its width made."""
    return " ".join(text.split())


def _chapter(told: str, title: str) -> str:
    """The text below one heading."""
    start = told.index(f"\n{title}\n") + len(title) + 2
    ends = [told.find(f"\n{other}\n", start) for other in CHAPTERS]
    return told[start : min((end for end in ends if end > 0), default=len(told))]


def test_one_screen_of_the_story_and_all_of_it_over_the_same_data(demo_dir: Path) -> None:
    """The second run's people know nothing of the first one's."""
    done = _run(demo_dir, columns=80)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert alive(demo_dir) == []
    _check_one_screen(done.stdout)

    done = _run(demo_dir, "--tour")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert alive(demo_dir) == []
    _check_story(done.stdout, demo_dir)
    assert len(set(re.findall(r"maren~(\w+)", done.stdout))) == 1


def _check_story(told: str, folder: Path) -> None:
    headings = [line for line in told.splitlines() if line in CHAPTERS]
    assert headings == CHAPTERS
    assert "\x1b" not in told
    assert max(map(len, told.splitlines())) <= 100
    # One's own data folder is named once; nothing else of the machine is.
    assert told.count(str(folder)) == 1
    assert str(ROOT) not in told
    assert sys.prefix not in told
    _check_learnt(told)
    _check_changes(_squeezed(_chapter(told, CHAPTERS[2])))
    _check_answers(told)
    _check_degraded(_squeezed(_chapter(told, CHAPTERS[6])))
    _check_past(_squeezed(_chapter(told, CHAPTERS[7])))
    _check_said(_chapter(told, CHAPTERS[8]))
    _check_planted(told)


def _check_learnt(told: str) -> None:
    learnt = _squeezed(_chapter(told, CHAPTERS[1]))
    assert "facts › personal › location: Glasgow" in learnt
    assert "facts › personal › occupation: chuyên viên phân tích dữ liệu" in learnt
    assert "aizawa: 0 memories that hold today No profile" in learnt
    for nothing_about_her in ("Portugal", "Tobias", "Pleiku"):
        assert nothing_about_her not in learnt
    assert "shows how the loop works" in _squeezed(_chapter(told, CHAPTERS[0]))


def _check_changes(changes: str) -> None:
    assert re.search(r"merged: “User prefers short answers[^”]*” is one memory, said in", changes)
    assert "maren-1-hello/m06, maren-3-night-job/m03" in changes
    assert "“User lives in Norwich.” held from 2026-08-21 until 2026-10-05" in changes
    assert re.search(r"reached: “User wants to ride 100 km[^”]*” Shown by: “User rode", changes)
    assert re.search(r"decided on 2026-09-17: “[^”]*Iceberg", changes)
    assert re.search(r"decided on 2026-09-25: “[^”]*PostgreSQL", changes)


def _check_answers(told: str) -> None:
    asked = _squeezed(_chapter(told, CHAPTERS[3]) + _chapter(told, CHAPTERS[5]))
    for item in questions():
        answer = asked[asked.rindex(f"{item['user_id']} asks: {item['query']}") :]
        for word in item["expect"]:
            assert f"the context says “{word}”" in answer, (item["query"], word)
    assert "the context says nothing of" not in asked
    assert "add up to the score" in asked
    rows = re.findall(r"^ *\w+((?: +-?\d\.\d{4})+) *$", _chapter(told, CHAPTERS[5]), re.M)
    assert len(rows) > 2
    *parts, scores = [[float(number) for number in row.split()] for row in rows]
    assert len(scores) == 3
    for added, score in zip(map(sum, zip(*parts, strict=True)), scores, strict=True):
        assert added == pytest.approx(score, abs=0.00005 * (len(parts) + 1))
    assert "Power BI" in _chapter(told, CHAPTERS[3])
    used = re.search(r"within (\d+) tokens \((\d+) are used", _squeezed(told))
    assert used is not None
    assert 0 < int(used[2]) <= int(used[1])


def _check_degraded(told: str) -> None:
    """D10: with its embedder stopped the words answer, and the reply says so."""
    running, stopped = told.split("The server is stopped.")
    stopped, known = stopped.split("And the question that it had embedded before")
    for whole in (running, known):
        assert re.search(r"semantic: ran, [1-9]\d* found", whole)
        assert "found by semantic, keyword" in whole
        assert "the reply is whole" in whole
    assert "a cat called Pepper who tries to steal the dates. (found by keyword)" in stopped
    assert "semantic: failed (the connection to the model server failed" in stopped
    assert re.search(r"keyword: ran, [1-9]\d* found", stopped)
    assert "the reply says that it is degraded" in stopped


def _check_past(told: str) -> None:
    """D9: what was true on a day, and what was known of it before it was told."""
    assert re.search(r"on 2026-09-01: “[^”]*Norwich[^”]*” \(2026-08-21 to 2026-10-05\)", told)
    assert re.search(r"on 2026-10-20: “[^”]*Glasgow[^”]*” \(\S+ to today\)", told)
    assert "(known_at), 0 memories were known of that day" in told


def _check_said(told: str) -> None:
    words, previous = told.split("The assistant answers, and stores")
    quoted = _squeezed("\n".join(re.findall(r"^  > (.*)$", words, re.M)))
    assert "user: Not for me, I'm allergic to hazelnuts" in quoted
    assert quoted.count("← found") == 1
    assert quoted.startswith("assistant: Then add roughly ten kilometres")
    assert "assistant: Even better, then you know what is in them." in quoted
    rested, brought_back = (
        re.findall(r"- (\d\.\d\d) (User [^-]*?)(?= -|$| Then)", _squeezed(part))
        for part in previous.split("Then: And why that one?")
    )
    assert len(rested) == 2
    assert rested == brought_back
    assert any("Iceberg" in content for _, content in rested)


def _check_planted(told: str) -> None:
    """What was planted shows as a quotation only, and breaks out of no block."""
    planted = ("administrator", "invoices", "Ignore all previous", "dropped without confirmation")
    outside = re.sub(r"^  > .*$", "", FENCE.sub("", told), flags=re.M)
    question = next(item["query"] for item in questions() if "administrator" in item["query"])
    outside = outside.replace(question, "")
    assert [text for text in planted if text in outside] == []
    blocks = [match.group() for match in FENCE.finditer(told)]
    assert len(blocks) == 2
    for block in blocks:
        assert [text for text in planted if text in block] == []
        assert "</memory>" not in block
        lines = [line.strip() for line in block.splitlines()]
        assert lines.count("[END ABOUT THE USER]") <= 1
    assert "1 memory is held in quarantine" in _squeezed(told)
    assert "User likes jazz." in blocks[0]
    assert "obey" not in blocks[0]
    assert told.count("repeat a word of it") == 3
    assert len(re.findall(r"- 0 of Maren's \d+ .* repeat a word of it", told)) == 3


def _check_one_screen(told: str) -> None:
    """It shows what was learnt and proves an answer."""
    lines = told.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    proof, _, rest = _squeezed(told).partition("What else is known of her")
    assert proof.index("User moved to Glasgow") < proof.index("because she said on 2026-10-05")
    assert "> Sorry I was away for a while. I moved to Glasgow last weekend" in proof
    assert "it replaced: User lives in Norwich. (true 2026-08-21 to 2026-10-05)" in proof
    assert "that conversation taken back, no longer told: User moved to Glasgow" in proof
    assert "that conversation taken back, true again: User lives in Norwich." in proof
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
    done = _run(demo_dir, "--transcripts", str(path))
    assert done.returncode == 0, done.stderr
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
