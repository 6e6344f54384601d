"""Checks at the border: what is refused and normalised, and that no refused text costs much."""

from __future__ import annotations

import time
import unicodedata
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import conversation_pb2
from hitherto_shared.errors import InvalidRequest
from hitherto_shared.validation import Checks


def violations(checks: Checks) -> dict[str, str]:
    try:
        checks.done()
    except InvalidRequest as error:
        return {violation.field: violation.description for violation in error.violations}
    return {}


def free(value: dict[str, Any]) -> Struct:
    struct = Struct()
    struct.update(value)
    return struct


def test_row_69_what_is_refused_for_its_length_is_not_read() -> None:
    """Four megabytes of marks would take seconds to bring into order."""
    checks = Checks()
    long = "\u0301\u0327" * 1_000_000
    began = time.thread_time()
    assert checks.texts("t", [long, "tea"], maximum=2, max_chars=64) == ["", "tea"]
    assert (checks.text("u", long, max_bytes=64 * 1024), checks.identifier("v", long)) == ("", "")
    assert checks.uuid("w", long) == UUID(int=0)
    assert time.thread_time() - began < 0.2
    assert set(violations(checks)) == {"t[0]", "u", "v", "w"}


def test_an_identifier_is_measured_in_normal_form() -> None:
    checks = Checks()
    checks.identifier("id", "e\u0301" * 256)
    assert violations(checks) == {}
    checks.identifier("id", "\U0001d15e" * 129)  # one character that becomes two
    assert "258" in violations(checks)["id"]


def test_limits() -> None:
    checks = Checks()
    asked = (0, 1, 200, 201, 2**31 - 1)
    found = [checks.limit("n", n, default=10, maximum=200) for n in asked]
    assert found == [10, 1, 200, 200, 200]
    most = [checks.optional_limit("n", n, default=10, maximum=200) for n in (None, 0, 5, 2**31 - 1)]
    assert most == [10, 0, 5, 200]
    assert violations(checks) == {}
    for ask in (checks.limit, checks.optional_limit):
        ask(ask.__name__, -1, default=4000, maximum=1_000_000)
    told = violations(checks)
    assert set(told) == {"limit", "optional_limit"}
    assert all("leave it out for 4000" in why for why in told.values())


def test_row_30_moments_are_those_of_calendars() -> None:
    for seconds, nanos, good in [
        (-2208988800, 0, True), (-2208988801, 0, False),
        (7289654399, 999_999_999, True), (7289654400, 0, False),
        (2**63 - 1, 0, False), (-(2**63), 0, False), (0, -1, False), (0, 10**9, False),
    ]:  # fmt: skip
        checks = Checks()
        message = conversation_pb2.Message(created_at=Timestamp(seconds=seconds, nanos=nanos))
        found = checks.moment("m.created_at", message, "created_at")
        assert (found is not None) is good, (seconds, nanos)
        assert list(violations(checks)) == ([] if good else ["m.created_at"]), (seconds, nanos)


def test_free_json() -> None:
    checks = Checks()
    value: Any = 1
    for _ in range(16):
        value = {"k": value}
    assert checks.struct("s", free(value)) == value
    normal = {"é": ["é", None, True]}
    assert checks.struct("s", free({"e\u0301": ["e\u0301", None, True]})) == normal
    assert violations(checks) == {}
    checks.struct("deep", free({"k": value}))
    checks.struct("big", free({"k": "x" * 65_536}))
    checks.struct("nul", free({"a": {"b\x00": 1}}))
    checks.struct("nan", free({"a": [0, float("nan")]}))
    assert set(violations(checks)) == {"deep" + ".k" * 17, "big", "nul.a.b\x00", "nan.a[1]"}


def test_violations_are_counted_and_only_so_many_kept() -> None:
    checks = Checks()
    for i in range(5_000):
        checks.add(f"f[{i}]", "is wrong")
    with pytest.raises(InvalidRequest) as caught:
        checks.done()
    assert (caught.value.total, len(caught.value.violations)) == (5_000, 1_000)
    assert "4999 more" in caught.value.message


def test_identifiers_are_any_printable_text() -> None:
    for good in ["a", "x" * 256, "ế" * 256, "a b", "日本", "👩‍👩‍👧", "٣", "-", "e\u0301"]:
        checks = Checks()
        assert checks.identifier("id", good) == unicodedata.normalize("NFC", good)
        assert violations(checks) == {}, good


def test_text_is_measured_in_bytes_of_its_normal_form() -> None:
    checks = Checks()
    assert (checks.text("t", "e\u0301" * 4, max_bytes=8), violations(checks)) == ("é" * 4, {})
    checks.text("t", "é" * 5, max_bytes=8)
    checks.text("u", " \n", max_bytes=8, required=True)
    checks.text("v", "a\x00", max_bytes=8)
    checks.text("w", "\udcff", max_bytes=8)
    assert set(violations(checks)) == {"t", "u", "v", "w"}


def test_a_text_may_be_as_much_longer_as_its_normal_form_can_be_shorter() -> None:
    for composed in ["\u0390", "\uac01", "é"]:
        checks = Checks()
        loose = unicodedata.normalize("NFD", composed)
        assert checks.text("t", loose * 1_000, max_bytes=len(composed.encode()) * 1_000)
        assert checks.identifier("u", "\u1f82" * 256), composed
        assert checks.identifier("v", unicodedata.normalize("NFD", "\u1f82" * 256)), composed
        assert violations(checks) == {}, composed
