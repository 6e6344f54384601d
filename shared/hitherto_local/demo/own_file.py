"""The short story of one's own file: what was learnt, and what an assistant would be told."""

from __future__ import annotations

from collections import Counter

from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts
from hitherto_local.demo.show import LEARNT_COLUMNS, learnt, profile_lines
from hitherto_local.demo.story import Story, tell_cost

_ROWS = 25


def own_transcripts(path: str) -> list[FileTranscript]:
    """The conversations of a file: JSON lines, or `user: …` text, which is then by `me`.

    Raises:
        TranscriptError: The file cannot be read as conversations.
    """
    return read_transcripts(path, Defaults(user_id="me"))


def tell_own(story: Story) -> None:
    """Print what the file taught, user by user, and the totals."""
    page = story.page
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
                f"These are the newest {_ROWS}; {len(memories) - _ROWS} older ones follow them."
            )
        profile = story.profile(user)
        for line in profile_lines(profile) if profile else []:
            page.item(line)
        reply = story.context(user)
        page.say(
            f"\nWhat an assistant is told about {user} ({reply.prompt_tokens} tokens):", "bold"
        )
        page.block(reply.prompt_block or "(nothing: there is nothing to tell)")
    page.chapter("Totals")
    states = Counter(item.job.state for item in story.work.learnt)
    page.item(
        f"{len(story.work.learnt)} transcripts of {len(users)} users, "
        f"{story.work.messages} messages"
    )
    page.item("jobs: " + ", ".join(f"{count} {state}" for state, count in states.items()))
    for what, count in totals.items():
        page.item(f"{count} {what}")
    for item in story.work.learnt:
        if not item.succeeded:
            page.item(f"{item.transcript.conversation_id}: {item.job.error}", "red")
    page.say(
        "This run's users are the file's with the mark ~"
        + story.run.mark
        + " behind their names, so that "
        "a file can be tried again and again."
    )
    tell_cost(story, "Time and cost")
