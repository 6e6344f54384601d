"""The demo in one screen, and the short story of one's own file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hitherto.v1 import conversation_pb2
from hitherto_client.results import Memory
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts
from hitherto_local.demo.show import EARLIEST, LEARNT_COLUMNS, day, learnt, profile_lines
from hitherto_local.demo.story import Story, sent_at, tell_cost

USER = "maren"
QUESTION = "Where does Maren live now?"
_TYPES = ("preference", "fact", "decision", "goal", "personal")
_MEMORIES = 5
_BUDGET = 150
_CHANGE = "maren-6-moving"
"""The conversation that ends what was true before."""


def tell_in_one_screen(story: Story) -> None:
    """Print the short form of the story: at most forty lines of eighty columns."""
    page = story.page
    memories = story.memories(USER)
    found = story.search(USER, QUESTION, limit=1)
    block = story.context(USER, QUESTION, max_tokens=_BUDGET).prompt_block
    _tell_what_was_read(story)
    page.chapter(QUESTION)
    for result in found:
        if result.memory is not None:
            _prove(story, result.memory, memories)
    _take_back(story, memories)

    shown = _selection(memories)
    page.chapter(f"{len(shown)} of the {len(memories)} memories about her")
    for memory in shown:
        page.line(_learnt(memory, story.zone(USER)))
    page.line(f"and {len(memories) - len(shown)} more")

    page.chapter("The answer in the assistant's prompt")
    page.block(block)
    page.say("")


def _tell_what_was_read(story: Story) -> None:
    """How much was read, and by whom."""
    running, work = story.running, story.work
    by = f"by {running.model}, {work.cost:.4f} US dollars"
    if running.extractor == "offline":
        by = "by rules; a model learns more: set OPENAI_API_KEY"
    story.page.say(
        f"{len(work.learnt)} conversations with {work.messages} messages, read in "
        f"{work.seconds:.0f} s ({by})."
    )


def _message(story: Story, conversation_id: str, message_id: str) -> conversation_pb2.Message:
    return next(
        message
        for item in story.work.learnt
        if item.transcript.conversation_id == conversation_id
        for message in item.transcript.messages
        if message.id == message_id
    )


def _prove(story: Story, memory: Memory, memories: Sequence[Memory]) -> None:
    """The best answer, the message that states it, what it replaced and what it made uncertain."""
    page, zone = story.page, story.zone(USER)
    page.item(memory.content, "green")
    for source in memory.sources[:1]:
        message = _message(story, source.conversation_id, source.message_id)
        page.item(f"learnt from her message of {day(sent_at(message), zone)}:")
        page.quote(message.content)
    for older in memories:
        if older.superseded_by == memory.id:
            page.line(
                f"replaced: {older.content} (true {day(older.valid_from, zone)} to "
                f"{day(older.valid_to, zone)})"
            )
    for doubtful in memories:
        # Only a language model says so.
        if doubtful.doubt is not None and doubtful.doubt.because_memory_id == memory.id:
            page.line(f"uncertain since: {doubtful.content}")


def _take_back(story: Story, memories: Sequence[Memory]) -> None:
    """Roll the change back, as if it had been planted."""
    story.running.client.rollback_source(story.run.user(USER), conversation=_CHANGE)
    before = {memory.id: memory.status for memory in memories}
    for memory in story.memories(USER):
        if memory.status != before[memory.id]:
            now = "restores" if memory.status == "active" else "removes"
            story.page.line(f"rolling that conversation back {now}: {memory.content}")


def _selection(memories: Sequence[Memory]) -> list[Memory]:
    """A few memories that show the most: reached, said often, by type."""
    rank = {"achieved": 0, "active": 1}
    shown = [memory for memory in memories if memory.status in rank and memory.type in _TYPES]
    shown.sort(
        key=lambda memory: (
            rank[memory.status],
            -len(memory.sources),
            _TYPES.index(memory.type),
            memory.valid_from or EARLIEST,
        )
    )
    return shown[:_MEMORIES]


def _learnt(memory: Memory, zone: str) -> str:
    """A memory in a line: what became of it, since when, how often it was said."""
    reached = " reached" if memory.status == "achieved" else ""
    times = f", said {len(memory.sources)} times" if len(memory.sources) > 1 else ""
    return f"{memory.type}{reached}, {day(memory.valid_from, zone)}{times}: {memory.content}"


_ROWS = 25


def own_transcripts(path: str) -> list[FileTranscript]:
    """The conversations of a file: JSON lines, or `user: …` text, which is then by `me`."""
    return read_transcripts(path, Defaults(user_id="me"))


def tell_own(story: Story) -> None:
    """Print what the file taught, user by user, and the totals."""
    page = story.page
    _tell_what_was_read(story)
    users = list(dict.fromkeys(item.transcript.user_id for item in story.work.learnt))
    totals: Counter[str] = Counter()
    for name in users:
        user = name.rpartition("~")[0]
        memories = story.memories(user, "active", "achieved")
        everything = story.memories(user)
        summaries = story.conversations(user)
        totals["memories"] += len(everything)
        totals["memories that name the messages they come from"] += sum(
            bool(memory.sources) for memory in everything
        )
        totals["conversations with a summary"] += sum(bool(s.summary) for s in summaries)
        page.chapter(f"{user}: {len(memories)} memories from {len(summaries)} conversations")
        if memories:
            page.table(LEARNT_COLUMNS, learnt(memories, story.zone(user))[-_ROWS:])
        if len(memories) > _ROWS:
            page.say(
                f"These are the newest {_ROWS}; {len(memories) - _ROWS} older ones are not shown."
            )
        profile = story.profile(user)
        for line in profile_lines(profile) if profile else []:
            page.item(line)
        reply = story.context(user)
        page.say(f"\nThe context about {user} for a prompt ({reply.prompt_tokens} tokens):", "bold")
        page.block(reply.prompt_block or "(empty: nothing was learnt)")
    page.chapter("Totals")
    states = Counter(item.job.state for item in story.work.learnt)
    page.item(f"{len(story.work.learnt)} transcripts of {len(users)} users")
    page.item("jobs: " + ", ".join(f"{count} {state}" for state, count in states.items()))
    for what, count in totals.items():
        page.item(f"{count} {what}")
    for item in story.work.learnt:
        if not item.job.succeeded:
            page.item(f"{item.transcript.conversation_id}: {item.job.error}", "red")
    page.say(
        f"In this run, every user id of the file ends with ~{story.run.mark}: a file can be tried "
        "again and again."
    )
    tell_cost(story)
