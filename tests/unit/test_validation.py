"""Checks at the border: what is refused, what is normalised, and that all of it is told at once."""

from __future__ import annotations

import unicodedata
from typing import Any

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


def test_identifiers_are_any_printable_text() -> None:
    for good in ["a", "x" * 256, "ế" * 256, "a b", "日本", "👩‍👩‍👧", "٣", "-", "e\u0301"]:
        checks = Checks()
        assert checks.identifier("id", good) == unicodedata.normalize("NFC", good)
        assert violations(checks) == {}, good


def test_text_is_measured_in_bytes_of_its_normal_form() -> None:
    checks = Checks()
    assert checks.text("t", "e\u0301" * 4, max_bytes=8) == "é" * 4
    assert violations(checks) == {}
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


def test_a_negative_limit_is_refused_in_words_that_fit_every_field() -> None:
    for ask in [Checks.limit, Checks.optional_limit]:
        checks = Checks()
        ask(checks, "max_tokens", -1, default=4000, maximum=1_000_000)
        told = violations(checks)["max_tokens"]
        assert "leave it out for 4000" in told, ask
        assert "section" not in told, ask


def test_moments() -> None:
    for seconds, nanos, good in [
        (-2208988800, 0, True),
        (-2208988801, 0, False),
        (7289654399, 999_999_999, True),
        (7289654400, 0, False),
        (253402300800, 0, False),
        (-62135596800, 0, False),
        (2**63 - 1, 0, False),
        (-(2**63), 0, False),
        (0, -1, False),
        (0, 10**9, False),
    ]:
        checks = Checks()
        message = conversation_pb2.Message(created_at=Timestamp(seconds=seconds, nanos=nanos))
        found = checks.moment("m.created_at", message, "created_at")
        assert (found is not None) is good
        assert list(violations(checks)) == ([] if good else ["m.created_at"])
        assert Checks().moment("m", conversation_pb2.Message(), "created_at") is None, seconds


def test_free_json() -> None:
    checks = Checks()
    value: Any = 1
    for _ in range(16):
        value = {"k": value}
    assert checks.struct("s", free(value)) == value
    assert checks.struct("s", free({"e\u0301": ["e\u0301", None, True]})) == {
        "é": ["é", None, True]
    }
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
    assert caught.value.total == 5_000
    assert len(caught.value.violations) == 1_000
    assert "4999 more" in caught.value.message
