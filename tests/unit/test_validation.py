"""Checks at the border: what is refused, what is normalised, and that all of it is told at once."""

from __future__ import annotations

import unicodedata

from hitherto_shared.errors import InvalidRequest
from hitherto_shared.validation import Checks


def violations(checks: Checks) -> dict[str, str]:
    try:
        checks.done()
    except InvalidRequest as error:
        return {violation.field: violation.description for violation in error.violations}
    return {}


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
