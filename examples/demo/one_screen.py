"""The demo in one screen: what was said and learnt, what is told, a change and its taking back."""

from __future__ import annotations

from collections.abc import Sequence

from examples.demo.show import EARLIEST, day
from examples.demo.story import Story, sent_at
from hitherto.v1 import conversation_pb2
from hitherto_client.results import Memory, SearchResult

USER = "maren"
QUESTION = "Where does Maren live now?"
_SAID = (
    ("maren-1-hello", "m02"),
    ("maren-1-hello", "m06"),
    ("maren-2-weekend", "m05"),
    ("maren-6-moving", "m01"),
)
_TYPES = ("preference", "fact", "decision", "goal")
_MEMORIES = 6
_BUDGET = 260
_CHANGE = "maren-6-moving"
"""The conversation that ends what was true before."""


def tell_in_one_screen(story: Story) -> None:
    """Print the short form of the story."""
    page, zone = story.page, story.zone(USER)
    memories = story.memories(USER)
    page.chapter("What was said")
    page.say(
        f"{len(story.work.learnt)} conversations of four fictional people with an assistant,"
        f" {story.work.messages} messages. Maren said, among other things:"
    )
    for conversation_id, message_id in _SAID:
        message = _message(story, conversation_id, message_id)
        page.item(f"{day(sent_at(message), zone)}  {message.content}")

    page.chapter("What was learnt")
    page.say(f"{len(memories)} memories about Maren, each with the messages that state it:")
    for memory in _selection(memories):
        page.item(_learnt(memory, memories, zone))

    page.chapter("What the assistant is told")
    page.say(f"The context for “{QUESTION}”, for the system prompt, within {_BUDGET} tokens:")
    page.block(story.context(USER, QUESTION, max_tokens=_BUDGET).prompt_block)

    page.chapter("One question, with its proof")
    page.say(QUESTION, "bold")
    for result in story.search(USER, QUESTION, limit=1):
        _prove(story, result, memories)
    _tell_doubts(story, memories)
    _take_back(story, memories)
    _tell_what_it_took(story)


def _message(story: Story, conversation_id: str, message_id: str) -> conversation_pb2.Message:
    return next(
        message
        for item in story.work.learnt
        if item.transcript.conversation_id == conversation_id
        for message in item.transcript.messages
        if message.id == message_id
    )


def _selection(memories: Sequence[Memory]) -> list[Memory]:
    """A few memories that show the most: replaced, reached, from the messages above, by type."""
    rank = {"contradicted": 0, "achieved": 1, "active": 2}
    shown = [memory for memory in memories if memory.status in rank and memory.type in _TYPES]
    shown.sort(
        key=lambda memory: (
            rank[memory.status],
            not any((one.conversation_id, one.message_id) in _SAID for one in memory.sources),
            -len(memory.sources),
            _TYPES.index(memory.type),
            memory.valid_from or EARLIEST,
        )
    )
    return shown[:_MEMORIES]


def _learnt(memory: Memory, memories: Sequence[Memory], zone: str) -> str:
    """A memory in a line: since when, how often it was said, what became of it."""
    newer = next((one.content for one in memories if one.id == memory.superseded_by), "")
    facts = [f"{memory.type}, {day(memory.valid_from, zone)}"]
    if len(memory.sources) > 1:
        facts.append(f"said {len(memory.sources)} times")
    if memory.status == "contradicted":
        facts.append(f"true until {day(memory.valid_to, zone)}, since then: {newer}")
    elif memory.status == "achieved":
        facts.append(f"reached: {newer}" if newer else "reached")
    return f"{memory.content} ({'; '.join(facts)})"


def _prove(story: Story, result: SearchResult, memories: Sequence[Memory]) -> None:
    """The best answer, the message that states it, and what it replaced."""
    page, zone, memory = story.page, story.zone(USER), result.memory
    if memory is None:
        return
    page.item(f"{memory.content}", "green")
    for source in memory.sources[:1]:
        message = _message(story, source.conversation_id, source.message_id)
        page.item(f"because she said on {day(sent_at(message), zone)}:")
        page.quote(message.content)
    for older in memories:
        if older.superseded_by == memory.id:
            page.item(
                f"it replaced: {older.content} That was true from {day(older.valid_from, zone)} "
                f"to {day(older.valid_to, zone)}, and is still found for that time."
            )


def _tell_doubts(story: Story, memories: Sequence[Memory]) -> None:
    """What a change made uncertain; a language model alone says so."""
    doubtful = [memory for memory in memories if memory.doubt is not None]
    if doubtful:
        story.page.chapter("What is uncertain since then")
        for memory in doubtful:
            assert memory.doubt is not None
            story.page.item(f"{memory.content} ({memory.doubt.reason})")


def _take_back(story: Story, memories: Sequence[Memory]) -> None:
    """Take the change back, as if it had been planted."""
    page = story.page
    page.chapter("The change, taken back")
    story.running.client.rollback_source(story.run.user(USER), conversation=_CHANGE)
    page.say(f"RollbackSource takes back all that one conversation ({_CHANGE}) taught:")
    before = {memory.id: memory.status for memory in memories}
    for memory in story.memories(USER):
        if memory.status != before[memory.id]:
            now = "true again" if memory.status == "active" else memory.status
            page.item(f"{memory.content} ({now})")


def _tell_what_it_took(story: Story) -> None:
    page, seconds = story.page, story.seconds
    page.chapter("What it took")
    page.item(
        f"{story.work.seconds:.1f} s to learn from all conversations, "
        f"{seconds['context'][0] * 1000:.0f} ms for the context, "
        f"{seconds['search'][0] * 1000:.0f} ms for the search, "
        f"{story.work.cost:.4f} US dollars"
    )
    if story.running.extractor == "offline":
        page.item(
            "no language model is configured, so simple rules for English and Vietnamese "
            "extracted: they miss most of what people say in other words. Set OPENAI_API_KEY or "
            "OPENAI_BASE_URL to see what a model learns."
        )
