"""Files that hold an export: whole or refused before anything is sent, in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hitherto_client.export import NoExport, count_records
from tests.refusing import refusing
from tests.unit.client.fake_services import Fakes

MEBIBYTE = 1024 * 1024
Lines = list[dict[str, Any]]


def lines() -> Lines:
    """An export of a user with three memories."""
    held: Lines = [
        {"table": "users", "row": {"user_id": "ana"}, "manifest": True},
        *({"table": "memories", "row": {"content": f"Note {n}."}} for n in range(3)),
    ]
    counts = {"users": 1, "memories": 3}
    return [*held, {"table": "manifest", "row": {"counts": counts}}]


def as_file(held: Lines) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(line) + "\n" for line in held).encode())


def test_a_whole_export_is_counted_without_its_manifest() -> None:
    assert count_records(as_file(lines())) == {"users": 1, "memories": 3}
    # Written closely, as the service does, and with a line that has no end.
    closely = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines())
    assert count_records(io.BytesIO(closely.encode())) == {"users": 1, "memories": 3}


def test_a_line_is_missing_or_too_many() -> None:
    held = lines()
    with pytest.raises(NoExport, match="the manifest of other lines"):
        count_records(as_file([*held[:2], *held[3:]]))
    with pytest.raises(NoExport, match="follows the manifest"):
        count_records(as_file([*held, held[1]]))
    of_others: tuple[Any, ...] = (None, 3, [])
    for counts in of_others:
        with pytest.raises(NoExport, match="the manifest of other lines"):
            count_records(as_file([*held[:-1], {"table": "manifest", "row": {"counts": counts}}]))


def test_an_export_that_announces_no_manifest_may_end_anywhere() -> None:
    held = [{name: line[name] for name in ("table", "row")} for line in lines()[:3]]
    assert count_records(as_file(held)) == {"users": 1, "memories": 2}
    odd = b'{"row": {}, "table": "jobs"}\n\n  \n'
    assert count_records(io.BytesIO(odd)) == {"jobs": 1}


def test_what_is_no_record_is_told() -> None:
    for line in [b"{}", b"[]", b"x", b'{"table": 3}', b"[" * 10_000, b'{"table": "']:
        with pytest.raises(NoExport, match="line 2, is no record"), refusing(line):
            count_records(io.BytesIO(b'{"table":"users","row":{}}\n' + line + b"\n"))


def test_nothing_of_a_cut_export_is_sent(fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "ana.jsonl"
    path.write_bytes(as_file(lines()[:-1]).getvalue())
    for extra in ([], ["--dry-run"]):
        assert (
            "was cut off before its manifest"
            in fakes.run(
                2, ["import", "--from", "hitherto", "--user", "ana", *extra, str(path)]
            ).err
        )
    assert not fakes.calls("ImportUser")


MEASURED = """
import sys
from hitherto_client.command import main

def peak():
    # What getrusage tells includes the peak of the process that this one was forked from.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))

before = peak()
code = main(sys.argv[1:])
print(code, peak() - before)
"""


def grown(*arguments: str) -> tuple[int, int, str]:
    """The exit code of the command, by how many MiB it grew, and what it said."""
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, "import", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    code, mebibytes = ran.stdout.splitlines()[-1].split()
    return int(code), int(mebibytes), ran.stderr


def packed(path: Path, data: bytes, times: int = 1) -> str:
    path.write_bytes(gzip.compress(data, 1) * times)
    return str(path)


def archived(path: Path, name: str, first: bytes, data: bytes, times: int) -> str:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as file,
    ):
        file.write(first)
        for _ in range(times):
            file.write(data)
    return str(path)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux")
@pytest.mark.parametrize(
    ("kind", "mebibytes", "most"),
    [
        ("hitherto", 150, 100),
        ("lines", 400, 350),
        ("values", 60, 350),
        ("whatsapp", 150, 100),
        ("long chat", 150, 100),
        ("chatgpt", 250, 200),
    ],
)
def test_a_small_file_that_unpacks_to_much_takes_little_memory(
    tmp_path: Path, kind: str, mebibytes: int, most: int
) -> None:
    """Each would be more than it may take as one text, or as many small values."""
    long = b"x" * MEBIBYTE
    line = b"21/08/2026, 14:30 - Ana: "
    file, arguments = tmp_path / "bomb", list[str]()
    match kind:
        case "hitherto":
            name = packed(file.with_suffix(".gz"), long, mebibytes)
            arguments = ["--from", "hitherto", "--user", "ana"]
        case "lines":
            name = packed(file.with_suffix(".gz"), long, mebibytes)
        case "values":
            values = b'{"a":[' + b"{}," * (mebibytes * MEBIBYTE // 3)
            name = packed(file.with_suffix(".gz"), values)
        case "whatsapp":
            name = archived(file.with_suffix(".zip"), "_chat.txt", line, long, mebibytes)
            arguments = ["--from", "whatsapp", "--user", "ana", "--me", "Ana"]
        case "long chat":
            some = (line + b"Hello, this is a line of a chat. " * 30 + b"\n") * 1_000
            name = archived(file.with_suffix(".zip"), "_chat.txt", b"", some, mebibytes)
            arguments = ["--from", "whatsapp", "--user", "ana", "--me", "Ana"]
        case _:
            begun = b'[{"a":"'
            name = archived(file.with_suffix(".zip"), "conversations.json", begun, long, mebibytes)
            arguments = ["--from", "chatgpt", "--user", "ana"]
    code, taken, said = grown(*arguments, "--dry-run", name)
    assert "Traceback" not in said
    assert code == (0 if kind in ("lines", "values") else 2), said
    assert taken < most, said
