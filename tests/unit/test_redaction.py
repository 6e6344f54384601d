"""H7: secrets are found by their shape, and what only looks like them stays."""

from __future__ import annotations

import json
import threading
import time
import unicodedata

import pytest

from hitherto_shared import long_json
from hitherto_shared.errors import InvalidRequest
from hitherto_shared.long_json import LONG, MAX_VALUES, TooManyValues, loads
from hitherto_shared.text.redaction import count_marked, redact_named, redact_text
from hitherto_shared.validation import Checks
from tests.unit.secret_samples import SECRETS, harmless, secrets_in_text

_EACH = 40


def test_h7_secrets_of_every_shape_are_caught() -> None:
    assert len(SECRETS) >= 45
    missed = []
    total = 0
    for shape, secret, text in secrets_in_text(_EACH):
        total += 1
        redacted = redact_text(text)
        if secret in redacted.text or not redacted.names:
            missed.append((shape, text))
        assert redact_text(redacted.text).text == redacted.text
        assert count_marked(redacted.text) == len(redacted.names)
    assert len(missed) <= 0.01 * total, missed[:20]
    assert not [shape for shape in SECRETS if sum(shape == each for each, _ in missed) > _EACH / 4]


def test_h7_nothing_harmless_is_damaged() -> None:
    texts = list(harmless(2_000))
    assert [text for text in texts if redact_text(text).text != text] == []
    assert redact_text("\n".join(texts)).names == ()


def test_h7_what_stands_around_a_secret_stays() -> None:
    word = "hun" + "ter22"
    for before, after in (
        ("My password is ", ", tell nobody."),
        ("İstanbul İİ PASSWORD: ", "."),
        ("postgres://bob:", "@db/x"),
    ):
        redacted = redact_text(f"{before}{word}{after}")
        assert redacted.text.startswith(f"{before}[redacted: password")
        assert redacted.text.endswith(f"]{after}")


def test_h7_a_field_whose_name_says_so_is_a_secret() -> None:
    for name in ("password", "Client-Secret", "api key", "apiKey", "mật khẩu"):
        redacted = redact_named(name, "correct horse")
        assert (redacted.text, redacted.names) == ("[redacted: secret]", ("secret",))
        assert redact_named(name, redacted.text).text == redacted.text
    for name in ("note", "token_count", "password_hint", "key"):
        assert redact_named(name, "correct horse").text == "correct horse"


# Long JSON means the same as short JSON, and lets other threads run while it is read.


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, -3e9, True, None, 'é\n"字🙂'], "b": {"c": [{}, []]}},
        [{"content": f"Number {n}, and its square.", "tags": ["a", "b"]} for n in range(900)],
        "a text",
        {str(n): n for n in range(900)},
    ],
)
@pytest.mark.parametrize("encoding", ["", "utf-8", "utf-16", "utf-8-sig"])
def test_it_is_read_as_by_the_decoder_in_c(
    value: object, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_json, "LONG", 1)
    text = json.dumps(value, ensure_ascii=False)
    assert loads(text.encode(encoding) if encoding else text) == value


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", '"a', "x" * 100, "[" * 100_000])
def test_what_is_no_json_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "LONG", 1)
    with pytest.raises((ValueError, RecursionError)):
        loads(text)


def test_more_values_than_anybody_asks_for_are_not_read() -> None:
    assert len(loads(f"[{'0,' * (MAX_VALUES - 1)}0]")) == MAX_VALUES
    with pytest.raises(TooManyValues):
        loads(f"[{'0,' * (MAX_VALUES + 1)}0]")


def test_others_have_their_turn() -> None:
    """The decoder in C holds the interpreter from the first to the last of these."""
    text = "{" + ",".join(f'"{n}":{{}}' for n in range(MAX_VALUES)) + "}"
    assert len(text) > LONG
    turns = 0
    reading = threading.Thread(target=loads, args=(text,))
    reading.start()
    while reading.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10


# Checks at the border: what is refused, what is normalised, and that all of it is told at once.


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
