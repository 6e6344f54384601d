"""The comments of the protos and docs/api.md name what the contract has, and leave nothing out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from google.protobuf.descriptor import FileDescriptor

from hitherto.v1 import error_reason_pb2

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos" / "hitherto" / "v1"
_REASONS = error_reason_pb2.ErrorReason.DESCRIPTOR.values
_PREFIX = "ERROR_REASON_"


def broken() -> Sequence[str]:
    """The names that do not exist, and those that are not explained."""
    files = [
        import_module(f"hitherto.v1.{path.stem}_pb2").DESCRIPTOR for path in PROTOS.glob("*.proto")
    ]
    return [*_comments(files), *_examples(), *_left_out(files)]


def _comments(files: Sequence[FileDescriptor]) -> Iterator[str]:
    known = {value.name.removeprefix(_PREFIX) for value in _REASONS} | {"UTC", _PREFIX}
    known |= {
        value.name
        for file in files
        for enum in file.enum_types_by_name.values()
        for value in enum.values
    }
    for path in sorted(PROTOS.glob("*.proto")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if line.lstrip().startswith("//"):
                for name in {*re.findall(r"`([A-Z][A-Z_]+)`", line)} - known:
                    yield f"{path.relative_to(ROOT)}:{number}: there is no {name}"


def _examples() -> Iterator[str]:
    text = (PROTOS / "error_reason.proto").read_text("utf-8")
    for value in _REASONS[1:]:
        above = text.split(f"  {value.name} = {value.number};")[0].rsplit(";", 1)[-1]
        reason = value.name.removeprefix(_PREFIX)
        if f'{{"reason": "{reason}", "domain": "hitherto"' not in above:
            yield f"error_reason.proto: {value.name} shows no example of itself"


def _left_out(files: Sequence[FileDescriptor]) -> Iterator[str]:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    headings = set(re.findall(r"^#+ (.+)$", page, re.MULTILINE))
    named = {value.name.removeprefix(_PREFIX) for value in _REASONS[1:]}
    for file in files:
        named |= {m.name for s in file.services_by_name.values() for m in s.methods}
        named |= {
            name
            for name in file.message_types_by_name
            if not name.endswith(("Request", "Response"))
        }
        for enum in file.enum_types_by_name.values():
            for value in enum.values:
                if enum.name != "ErrorReason" and f"| `{value.name}` |" not in page:
                    yield f"docs/api.md lacks {value.name}: run make proto"
    yield from (f"docs/api.md lacks {name}: run make proto" for name in sorted(named - headings))
