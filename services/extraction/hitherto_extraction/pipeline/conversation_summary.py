"""Writes the summary of a conversation, and indexes it and the messages.

Each writing function runs in the transaction of a caller that holds the user's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hitherto_extraction.pipeline.reply_vectors import Vectors, is_passage
from hitherto_extraction.pipeline.summarise import SummaryFields, merge_summary
from hitherto_extraction.storage import summaries, users
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora import vectors as store
from hitherto_extraction.storage.corpora.corpus import EmbeddableText
from hitherto_extraction.storage.corpora.index import NumberedText
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_extraction.storage.summaries import HeldSummary
from hitherto_shared.database.arrays import Texts, fields_of
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import registered_length
from hitherto_shared.models import Summary
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.passages import message_text, summary_text
from hitherto_shared.text.terms import count_terms

_WORK_OF_A_LETTER = 10
"""The work of merging one letter, in characters read: it looks for instructions."""


async def conclude(
    held: HeldSummary, given: Mapping[str, Any] | None, *, done_to: int
) -> SummaryFields:
    """The summary after messages up to `done_to` were read and a reply has given its own."""
    letters = len(held.first_user_words)
    for value in (given or {}).values():
        for text in value if isinstance(value, list) else [value]:
            letters += len(text) if isinstance(text, str) else 0
    return await in_thread_if_long(
        _WORK_OF_A_LETTER * letters,
        merge_summary,
        held.summary,
        given or {},
        first_user_words=held.first_user_words,
        late=done_to <= held.covers_to,
    )


def new_words(held: HeldSummary, fields: SummaryFields) -> str | None:
    """The index terms of a summary; None if they are unchanged, or if it stays sealed."""
    if held.sealed:
        return None
    if held.lexical_no is not None and not _reworded(held, fields):
        return None
    return _text(fields)


async def write(
    user: UserRows,
    conversation_id: str,
    fields: SummaryFields,
    *,
    held: HeldSummary,
    done_to: int,
    messages: Sequence[StoredMessage] = (),
    vectors: Vectors,
) -> None:
    """Store a summary, and index it and its messages together.

    Nothing of a user with encryption on is indexed: messages from before are about to be sealed. A
    summary that was in clear leaves the index, and its vector is left to the sweep.

    If the words of the `held` summary change, the old ones leave the index. Of `messages`, those
    that are indexed or sealed are skipped. Nothing waits for vectors that are missing.

    Raises:
        KeyNeeded: It is to be sealed, and the user's key is not at hand.
    """
    encrypts = (await users.encryption_of(user)).on
    indexed = vectors.wanted is not None and not encrypts
    text = new_words(held, fields) if indexed else None
    fresh = [message for message in messages if indexed and is_passage(message)]
    if held.lexical_no is not None and (text is not None or held.sealed or encrypts):
        await index.remove(user, SUMMARIES, [(conversation_id, 0)])
        if text is None:
            # It may have a vector, which this role cannot delete.
            await users.leave_to_seal(user)
    counted = [count_terms(message_text(message.name, message.content)) for message in fresh]
    of_summary = [count_terms(text)] if text is not None else []
    numbers, length = await together(
        user.connection,
        index.add(user, {MESSAGES: counted, SUMMARIES: of_summary}),
        registered_length(user.connection, vectors.model),
    )
    # Vectors before numbers: see `EmbeddedCorpus.settle`.
    await _write_vectors_of_messages(user, conversation_id, fresh, vectors, length)
    numbered = [
        NumberedText(
            (conversation_id, message.message_no), number, terms, vectors.state_of(message)
        )
        for message, number, terms in zip(fresh, numbers[MESSAGES], counted, strict=True)
    ]
    version, _ = await together(
        user.connection,
        summaries.write(
            user,
            conversation_id,
            _columns(fields),
            held=held,
            covers_to=done_to,
            reworded=_reworded(held, fields),
            lexical_no=numbers[SUMMARIES][0] if of_summary else None,
            lexical_length=of_summary[0].total() if of_summary else None,
        ),
        index.number(user, MESSAGES, numbered, model=vectors.model),
    )
    if text is not None and text == vectors.summary and ("summary", 0) in vectors.found:
        key = (user.scope.tenant_id, user.scope.user_id, conversation_id, version)
        words = {EmbeddableText(key, (text,)): [vectors.found["summary", 0]]}
        await store.write_stored(
            user.connection, SUMMARIES, words, model=vectors.model, length=length
        )


async def _write_vectors_of_messages(
    user: UserRows,
    conversation_id: str,
    messages: Sequence[StoredMessage],
    vectors: Vectors,
    length: int | None,
) -> None:
    said = {
        EmbeddableText(
            (user.scope.tenant_id, user.scope.user_id, conversation_id, message.message_no),
            (message.content,),
        ): [vectors.found["message", message.message_no]]
        for message in messages
        if ("message", message.message_no) in vectors.found
    }
    await store.write(user.connection, MESSAGES, said, model=vectors.model, length=length)


async def drop_summary(user: UserRows, conversation_id: str) -> int:
    """Delete a summary with all its index entries; returns 1 if there was one.

    The role is hitherto_removal.
    """
    await index.remove(user, SUMMARIES, [(conversation_id, 0)])
    return await summaries.delete(user, conversation_id)


def _columns(fields: SummaryFields) -> dict[str, Any]:
    return {key: Texts(v) if isinstance(v, list) else v for key, v in fields_of(fields).items()}


def _reworded(held: HeldSummary, fields: SummaryFields) -> bool:
    return held.summary is not None and _wording(held.summary) != _wording(fields)


def _wording(summary: Summary | SummaryFields) -> tuple[str, str, list[str], list[str]]:
    return (
        summary.title,
        summary.summary,
        list(summary.key_topics),
        list(summary.technical_topics),
    )


def _text(summary: Summary | SummaryFields) -> str:
    return summary_text(*_wording(summary))
