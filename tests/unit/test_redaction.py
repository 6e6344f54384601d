"""H7: secrets are found by their shape in every text, and what only looks like them stays."""

from __future__ import annotations

from typing import Any

from hitherto.v1 import extraction_service_pb2, memory_service_pb2, session_service_pb2
from hitherto_extraction.handlers.screening import WORDS
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
    short = "hun" + "ter22"
    for before, word, after in (
        ("My password is ", short, ", tell nobody."),
        ("My password is ", f"{short}&4;x&y", "."),
        ("My password is ", "Ab1&Xy9z", " (work)"),
        ("My password is ", "Salt&Pepper", ", and I use it for mail (work)"),
        ("كلمة المرور: ", short, "."),
        ("/?password=", short, "&x=1"),
        ("/?password=", short, "&filter[name]=a"),
        ("/?password=", short, "&utm-source=x&filter%5Ba%5D=b"),
        ("pwd=", short, ";connect(db)"),
        ("Server=db;Password=", f"{short};4", ";User Id=sa"),
        ("İstanbul İİ PASSWORD: ", short, "."),
        ("postgres://bob:", short, "@db/x"),
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


_NO_WORDS = {
    "id", "user_id", "conversation_id", "message_id", "memory_id", "session_id", "document_id",
    "pending_action_id", "pending_action_ids", "context_item_ids", "source_id", "replaces",
    "idempotency_key", "consistency_token", "time_zone", "source_type", "content_type", "type",
    "department", "access_level",
}  # fmt: skip
"""Fields that identify or choose something."""
_READ_ONLY = {
    "Memory": {"source_message_ids", "superseded_by", "supersedes", "job_id", "may_replace"},
    "MemorySourceRef": set(),
    "Doubt": {"because_memory_id", "reason"},
    "Evidence": {"quote"},
    "ProfileSource": {"memory_ids", "quote"},
    "SourcesEntry": {"key"},
}
"""Fields of replies, which no request sets."""
_OTHER_CALLS = {
    "GetJob", "ListJobs", "WatchJob", "RetryJob", "CancelJob", "EndConversation", "DeleteDocument",
}  # fmt: skip
"""RPCs that take no words; PrivacyService is not looked at: an import stores what was exported."""


def _texts(message: Any, seen: set[str]) -> set[tuple[str, str]]:
    if message.full_name in seen or not message.full_name.startswith("hitherto"):
        return set()
    seen.add(message.full_name)
    found = set()
    for field in message.fields:
        if field.message_type is not None:
            found |= _texts(field.message_type, seen)
        elif field.type == field.TYPE_STRING:
            found.add((message.name, field.name))
    return found


def test_h7_every_text_is_searched_or_is_known_to_hold_no_words() -> None:
    found: set[tuple[str, str]] = set()
    for module in (extraction_service_pb2, memory_service_pb2, session_service_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                if method.name not in _OTHER_CALLS:
                    found |= _texts(method.input_type, set())
    searched = {(message, field) for message, fields in WORDS.items() for field in fields}
    assert searched <= found
    left = {
        (message, field)
        for message, field in found - searched
        if field not in _NO_WORDS | _READ_ONLY.get(message, set())
    }
    assert left == set()
