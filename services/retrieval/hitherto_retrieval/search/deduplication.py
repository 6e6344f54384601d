"""Removes repetitions: what other results say, and what only echoes the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from hitherto_retrieval.repetition import (
    ComparedText,
    Source,
    Words,
    adds_nothing,
    is_enough,
    is_kept,
    is_said,
    sources_of,
    text_of,
    weight_of,
    words_of,
)
from hitherto_retrieval.search.intent.question import asks_the_assistant
from hitherto_retrieval.search.intent.whole_words import readable
from hitherto_retrieval.search.question import Hit
from hitherto_retrieval.search.words import distinct_words, first_word, same_words
from hitherto_retrieval.storage.candidate import Kind
from hitherto_shared.models import Memory, Message
from hitherto_shared.text.instructions import overrides_instructions


def repeats(kinds: Iterable[Kind]) -> bool:
    """Whether a search of these kinds can find the same content twice."""
    return {"memory", "message"}.issubset(kinds)


def to_be_compared(hits: Iterable[Hit]) -> int:
    """Approximate number of characters that `each_once` reads."""
    return sum(
        min(len(hit.item.content), 4_000) for hit in hits if isinstance(hit.item, Memory | Message)
    )


def each_once(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The first hits, without those whose words stand in a better hit that they belong to.

    A memory gives way to a message that it was learnt from, a message to a memory that was learnt
    from it, and either only to one that holds its words. Memories of one message stay beside each
    other: they say different things about it.
    """
    made_of: dict[Source, list[ComparedText]] = {}
    said: dict[Source, ComparedText] = {}
    kept: list[Hit] = []
    for hit in hits:
        if len(kept) == limit:
            break
        sources = sources_of(hit.item)
        if isinstance(hit.item, Message):
            text = text_of(hit.item)
            memories = made_of.get(sources[0], ())
            if any(is_kept(text.words, memory.words) for memory in memories):
                continue
            said[sources[0]] = text
        elif isinstance(hit.item, Memory) and sources:
            text = text_of(hit.item)
            if any(is_said(text.words, said[each].words) for each in sources if each in said):
                continue
            for source in sources:
                made_of.setdefault(source, []).append(text)
        kept.append(hit)
    return kept


def to_be_read(hits: Iterable[Hit]) -> int:
    """Approximate number of characters of the messages among hits that `for_a_prompt` reads.

    Most messages were judged in earlier answers and are only looked up.
    """
    texts = [
        hit.item.content
        for hit in hits
        if isinstance(hit.item, Message) and not (hit.item.memo and _READ in hit.item.memo)
    ]
    all_of_them = sum(map(len, texts))
    if all_of_them > _RECOGNISED_AT_ONCE:
        return all_of_them
    return sum(len(text) for text in texts if _digest(text) not in _verdicts)


def for_a_prompt(hits: Iterable[Hit], question: str | None = None) -> list[Hit]:
    """The hits without messages that do not belong in a prompt.

    Left out are messages that ask to ignore instructions: messages are not reviewed, and a memory
    of such a message would be in quarantine. If there is a question, also left out are messages
    that only repeat it, what the assistant answered to these (it may not have known, or what it
    said may hold no longer), short answers of it to the same question in other words, and what an
    assistant said that adds hardly a word to the question, unless the question asks what the
    assistant said.
    """
    given = list(hits)
    asked = None if question is None else distinct_words(question)
    first = first_word(question or "")
    echoes: set[tuple[str, int | None]] = set()
    known = frozenset() if question is None else words_of(question)

    def belongs(message: Message) -> bool:
        commands, begins = _read(message)
        if commands or asked is None:
            return not commands
        return begins != first or not same_words(message.content, asked)

    kept = []
    for hit in given:
        if not isinstance(hit.item, Message) or belongs(hit.item):
            kept.append(hit)
        elif hit.ranked is not None and isinstance(hit.ranked.candidate.key, tuple):
            echoes.add(hit.ranked.candidate.key)
    if asked is None or asks_the_assistant(readable(question or "")):
        return kept
    short = {
        (hit.item.conversation_id, hit.answers)
        for hit in kept
        if isinstance(hit.item, Message) and _is_short_reply(hit)
    }
    alike = {
        hit.ranked.candidate.key
        for hit in (kept if short else ())
        if hit.ranked is not None
        and isinstance(hit.item, Message)
        and hit.ranked.candidate.key in short
        and _asks_the_same(hit.item, known)
    }
    weight = weight_of(known)

    def answers(hit: Hit) -> bool:
        if not isinstance(hit.item, Message) or not _is_assistant(hit.item):
            return True
        of = hit.item.conversation_id, hit.answers
        if of in echoes or (of in alike and _is_short_reply(hit)):
            return False
        return not _adds_nothing(hit.item, known, weight)

    return [hit for hit in kept if answers(hit)]


def _is_assistant(message: Message) -> bool:
    return message.role == "assistant" and not message.name


def _is_short_reply(hit: Hit) -> bool:
    """Whether an assistant without a name said few words, as it does if it does not know."""
    message = hit.item
    if not isinstance(message, Message) or not _is_assistant(message):
        return False
    return len(message.content) <= _SHORT


def _asks_the_same(message: Message, question: Words) -> bool:
    """Whether a message is the question in other words."""
    if len(message.content) > _SHORT or not message.content.rstrip().endswith(_MARKS):
        return False
    words = words_of(message.content)
    return 2 * len(words & question) >= len(question) > 0 and adds_nothing(words, question)


def _adds_nothing(message: Message, question: Words, asked: int) -> bool:
    """Whether a short text has hardly a word that the question lacks: "I do not know where".

    `asked` is the weight of the question's words.
    """
    if len(message.content) > _SHORT:
        return False
    memo = message.memo
    weight: int | None = None if memo is None else memo.get(_WEIGHT)
    # The question's words take away no more than their own weight.
    if weight is not None and is_enough(weight - asked):
        return False
    words = words_of(message.content)
    if memo is not None:
        memo[_WEIGHT] = weight_of(words)
    return adds_nothing(words, question)


_SHORT = 200
"""An assistant's text of at most so many characters needs words of its own."""
_MARKS = ("?", "？", "؟")
"""How a question ends."""
_READ, _WEIGHT = "read for a prompt", "weight of its words"


def _read(message: Message) -> tuple[bool, str]:
    """Whether a message is a command, and its first word."""
    memo = message.memo
    read: tuple[bool, str] | None = None if memo is None else memo.get(_READ)
    if read is None:
        read = _commands(message.content), first_word(message.content)
        if memo is not None:
            memo[_READ] = read
    return read


_verdicts: dict[bytes, bool] = {}
_MOST_VERDICTS = 20_000
_RECOGNISED_AT_ONCE = 256 * 1024
"""Characters that take a good half of a millisecond to look up."""


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _commands(text: str) -> bool:
    # The key is a digest, so that no cache holds a user's text, in particular opened sealed text.
    key = _digest(text)
    verdict = _verdicts.get(key)
    if verdict is None:
        if len(_verdicts) >= _MOST_VERDICTS:
            _verdicts.clear()
        verdict = _verdicts[key] = overrides_instructions(text)
    return verdict
