"""H7: secrets are found by their shape, and what only looks like them stays."""

from __future__ import annotations

from hitherto_shared.text.redaction import count_marked, redact_named, redact_text
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
