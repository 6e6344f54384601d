"""Removes repetitions: a memory and its messages become one result, echoes none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.question import Hit
from hitherto_retrieval.search.words import distinct_words, first_word, same_words
from hitherto_retrieval.storage.candidate import Kind
from hitherto_shared.models import Memory, Message
from hitherto_shared.text.instructions import overrides_instructions

Source = tuple[str, str]
"""A message by conversation id and message id."""


def repeats(kinds: Iterable[Kind]) -> bool:
    """Whether a search of these kinds can find the same content twice."""
    return {"memory", "message"}.issubset(kinds)


def each_once(hits: Sequence[Hit]) -> list[Hit]:
    """The hits without those whose sources are all shown by better hits.

    A message shows itself, a memory the messages it came from. An item without sources stays. If a
    memory raised the score of its message, because it matches the question better, the memory takes
    the message's place.
    """
    all_sources = [sources_of(hit.item) for hit in hits]
    made_of: dict[Source, Hit] = {}
    for hit, sources in zip(hits, all_sources, strict=True):
        if isinstance(hit.item, Memory):
            for source in sources:
                made_of.setdefault(source, hit)
    shown: set[Source] = set()
    kept: list[Hit] = []
    for hit, sources in zip(hits, all_sources, strict=True):
        if sources and shown.issuperset(sources):
            continue
        standing, shows = hit, sources
        better = made_of.get(sources[0]) if isinstance(hit.item, Message) else None
        if better is not None and hit.ranked and hit.ranked.lifted_by_facts:
            standing, shows = _in_place(better, hit.score), sources_of(better.item)
        shown.update(shows)
        kept.append(standing)
    return kept


def _in_place(hit: Hit, score: float) -> Hit:
    """A memory in the place of a message, with the message's score; the difference is `facts`."""
    return replace(hit, score=score, lift=score - hit.score)


def to_be_read(hits: Iterable[Hit]) -> int:
    """Approximate number of characters of the messages among hits that `for_a_prompt` reads.

    Most messages were judged in earlier answers and are only looked up.
    """
    texts = [
        hit.item.content
        for hit in hits
        if isinstance(hit.item, Message) and not (hit.item.kept and _READ in hit.item.kept)
    ]
    all_of_them = sum(map(len, texts))
    if all_of_them > _RECOGNISED_AT_ONCE:
        return all_of_them
    return sum(len(text) for text in texts if _digest(text) not in _verdicts)


def for_a_prompt(hits: Iterable[Hit], question: str | None = None) -> list[Hit]:
    """The hits without messages that do not belong in a prompt.

    Left out are messages that only repeat the question, if there is one, and those that ask to
    ignore instructions: messages are not reviewed, and a memory of such a message would be in
    quarantine.
    """
    asked = None if question is None else distinct_words(question)
    first = first_word(question or "")

    def belongs(message: Message) -> bool:
        commands, begins = _read(message)
        if commands or asked is None:
            return not commands
        return begins != first or not same_words(message.content, asked)

    return [hit for hit in hits if not isinstance(hit.item, Message) or belongs(hit.item)]


_READ = "read for a prompt"


def _read(message: Message) -> tuple[bool, str]:
    """Whether a message is a command, and its first word."""
    kept = message.kept
    read: tuple[bool, str] | None = None if kept is None else kept.get(_READ)
    if read is None:
        read = _commands(message.content), first_word(message.content)
        if kept is not None:
            kept[_READ] = read
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


_SOURCES = "sources"


def sources_of(item: Item) -> Sequence[Source]:
    """The messages that an item shows; none for a summary or a document."""
    if isinstance(item, Message):
        return ((item.conversation_id, item.message_id),)
    if not isinstance(item, Memory):
        return ()
    kept = item.kept
    if kept is not None and _SOURCES in kept:
        known: Sequence[Source] = kept[_SOURCES]
        return known
    found = [(source.conversation_id, source.message_id) for source in item.sources]
    if kept is not None:
        kept[_SOURCES] = found
    return found
