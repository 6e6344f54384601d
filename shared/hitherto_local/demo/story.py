"""The story of the sample conversations, section by section, from what the services answer."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args

from hitherto.v1 import conversation_pb2
from hitherto_client.results import Context, ConversationSummary, Memory, Profile, SearchResults
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts
from hitherto_client.words import MemoryStatus
from hitherto_extraction.provider.offline import LIMITS
from hitherto_local.demo.answers import (
    tell_answers,
    tell_block,
    tell_degraded,
    tell_past,
    tell_said,
    tell_use_cases,
)
from hitherto_local.demo.services import Running
from hitherto_local.demo.show import (
    LEARNT_COLUMNS,
    StoryPage,
    day,
    learnt,
    oldest_first,
    profile_lines,
)
from hitherto_local.demo.upkeep import tell_upkeep
from hitherto_local.demo.work import DemoRun, SubmissionResult

FOLDER = Path(__file__).parent
PLANTED = ("administrator", "invoice", "full access", "pay@", "dropped without confirmation")
"""Words of the planted instructions of 24 September and 23 October, and of nothing else."""

_ALL_STATUSES: tuple[MemoryStatus, ...] = get_args(MemoryStatus)
_T = TypeVar("_T")


@dataclass
class Story:
    """What every section needs: where to print, whom to ask, and what was learnt."""

    page: StoryPage
    running: Running
    run: DemoRun
    work: SubmissionResult
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By kind of read, how long each took as the caller sees it."""

    def timed(self, kind: str, read: Callable[[], _T]) -> _T:
        """Make a read and note how long it took."""
        began = time.monotonic()
        answer = read()
        self.seconds.setdefault(kind, []).append(time.monotonic() - began)
        return answer

    def context(self, user: str, query: str = "", **more: Any) -> Context:
        """What an assistant is told about a person of the file."""
        ask = self.running.client.get_context
        return self.timed("context", lambda: ask(self.run.user(user), query, **more))

    def search(self, user: str, query: str, kind: str = "search", **more: Any) -> SearchResults:
        """What is found about a person of the file."""
        ask = self.running.client.search
        return self.timed(kind, lambda: ask(self.run.user(user), query, **more))

    def zone(self, user: str) -> str:
        """The time zone of a person of the file."""
        return next(
            (
                item.transcript.time_zone
                for item in self.work.learnt
                if item.transcript.user_id == self.run.user(user)
            ),
            "UTC",
        )

    def memories(self, user: str, *statuses: MemoryStatus) -> Sequence[Memory]:
        """All memories of a person, or those with one of `statuses`."""
        found = self.running.client.memories(
            self.run.user(user), statuses=statuses or _ALL_STATUSES, page_size=1000
        )
        return list(found)

    def profile(self, user: str) -> Profile | None:
        """The profile of a person; None if nothing is in one yet."""
        return self.running.client.get_profile(self.run.user(user))

    def conversations(self, user: str) -> Sequence[ConversationSummary]:
        """The summaries of a person's conversations, last changed first."""
        return list(self.running.client.conversations(self.run.user(user)))


def sent_at(message: conversation_pb2.Message) -> datetime:
    """When a message of the file was sent."""
    found: datetime = message.created_at.ToDatetime(tzinfo=UTC)
    return found


def sample_transcripts() -> list[FileTranscript]:
    """The conversations that the story is about, in the order in which they began."""
    return read_transcripts(str(FOLDER / "conversations.jsonl"), Defaults())


def questions() -> list[dict[str, Any]]:
    """What is asked afterwards; see README.md."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "questions.json").read_text("utf-8"))
    return found


def tell(story: Story) -> None:
    """Print all sections."""
    asked = questions()
    _tell_what_was_learnt(story)
    _tell_what_changed(story)
    tell_use_cases(story, asked)
    _tell_what_was_planted(story)
    tell_answers(story, asked)
    tell_degraded(story)
    tell_past(story)
    tell_said(story)
    tell_block(story)
    tell_upkeep(story)
    tell_cost(story)


def tell_what_runs(page: StoryPage, running: Running) -> None:
    """Section 1: which extractor and embedder."""
    page.chapter("1. What runs")
    page.say(
        f"Two services on ports of their own, with a Postgres of their own, ready after "
        f"{running.start_seconds:.1f} s."
    )
    page.item(f"extractor: {running.extractor} ({running.model})")
    page.item(f"embedder: {running.embedder}")
    if running.extractor != "offline":
        page.say(
            "A language model reads the conversations; what it learns differs from run to run."
        )
        return
    page.say(f"No language model is configured. {LIMITS}")


def _people(story: Story) -> Iterable[str]:
    users = (item.transcript.user_id for item in story.work.learnt)
    return dict.fromkeys(user.rpartition("~")[0] for user in users)


def _tell_what_was_learnt(story: Story) -> None:
    page = story.page
    page.chapter("2. What was learnt")
    page.say(
        f"{len(story.work.learnt)} conversations with {story.work.messages} messages. In this run "
        f"the users are called {story.run.user('maren')} and so on; the memories of earlier "
        f"runs stay in the same database, under other names."
    )
    for user in _people(story):
        memories = story.memories(user, "active", "achieved")
        page.say(f"\n{user}: {len(memories)} memories that hold today", "bold")
        if memories:
            page.table(LEARNT_COLUMNS, learnt(memories, story.zone(user)))
        profile = story.profile(user)
        if profile is None:
            page.say("No profile: nothing was extracted for one.")
            continue
        page.say(f"The profile, version {profile.version}:")
        for line in profile_lines(profile):
            page.item(line)


def _tell_what_changed(story: Story) -> None:
    page = story.page
    page.chapter("3. What was merged, contradicted, reached and decided")
    for user in _people(story):
        everything = sorted(story.memories(user), key=oldest_first)
        by_id = {memory.id: memory for memory in everything}
        for memory in everything:
            told = _change(memory, by_id.get(memory.superseded_by), story.zone(user))
            if told:
                page.item(f"{user}, {told}")


def _change(memory: Memory, newer: Memory | None, zone: str) -> str:
    """What happened to a memory, in a sentence; empty if nothing did."""
    since = day(memory.valid_from, zone)
    if memory.status == "contradicted":
        held = f"held from {since} until {day(memory.valid_to, zone)} and is kept, not deleted."
        after = f" Since then: “{newer.content}”" if newer else ""
        return f"contradicted: “{memory.content}” {held}{after}"
    if memory.status == "achieved":
        shown = f" Shown by: “{newer.content}”" if newer else ""
        return f"reached: “{memory.content}”{shown}"
    if len(memory.sources) > 1:
        said = ", ".join(f"{item.conversation_id}/{item.message_id}" for item in memory.sources)
        return f"merged: “{memory.content}” is one memory, said in {said}"
    if memory.type == "decision":
        return f"decided on {since}: “{memory.content}”"
    return ""


def _tell_what_was_planted(story: Story) -> None:
    page = story.page
    page.chapter("5. The planted instructions")
    page.say(
        "On 24 September Maren pastes a supplier's mail, and on 23 October a tool reads a page for "
        "her. Both contain instructions to an assistant:"
    )
    for item in story.work.learnt:
        for message in item.transcript.messages:
            if message.role != conversation_pb2.ROLE_ASSISTANT:
                for line in message.content.split("\n"):
                    if "Ignore all previous instructions" in line:
                        page.quote(line)
    everything = story.memories("maren")
    profile = story.profile("maren")
    lines = profile_lines(profile) if profile else []
    for name, texts in (
        ("memories", [f"{memory.content} {memory.detail}" for memory in everything]),
        ("profile fields", lines),
        ("summaries", [f"{item.title} {item.summary}" for item in story.conversations("maren")]),
    ):
        hits = [text for text in texts if any(mark in text.lower() for mark in PLANTED)]
        page.item(f"{len(hits)} of Maren's {len(texts)} {name} repeat a word of it.")
        for text in hits:
            page.quote(text)
    page.say(
        "\nA visitor says one thing worth remembering, and one that is designed to break out of "
        "the prompt block:"
    )
    said = next(
        item.transcript.messages[0].content
        for item in story.work.learnt
        if item.transcript.user_id == story.run.user("visitor")
    )
    page.quote(said)
    held_back = story.memories("visitor", "quarantined")
    page.say(
        f"The first is learnt. The other reads as an instruction: {len(held_back)} memory is held "
        "in quarantine, out of every read, until ReviewMemory decides. The prompt block itself is "
        "enclosed in two fence lines with an unguessable id; inside, each memory is one line, and "
        "tags, headings and role names are neutralised:"
    )
    page.block(story.context("visitor").prompt_block)


def tell_cost(story: Story, title: str = "12. Time and cost") -> None:
    """The last section: how long everything took, and what it cost."""
    page, work = story.page, story.work
    page.chapter(title)
    each = [item.seconds for item in work.learnt]
    rows = [
        (
            "start of both services and the database",
            "1",
            f"{story.running.start_seconds:.2f} s",
            "",
        ),
        _row("acceptance (stored durably), per request", work.accept_seconds),
        _row("learning, per conversation", each),
        ("learning, all conversations", str(len(each)), f"{work.seconds:.2f} s", ""),
    ]
    rows += [_row(f"{kind}, per call", seconds) for kind, seconds in story.seconds.items()]
    page.table(("what", "times#", "median#", "slowest#"), rows)
    tokens = sum(
        item.job.result.usage.input_tokens + item.job.result.usage.output_tokens
        for item in work.learnt
    )
    if tokens:
        page.say(f"Cost: {work.cost:.4f} US dollars for {tokens:,} tokens of a language model.")
    else:
        page.say("Cost: 0 US dollars; no language model was asked.")


def _row(name: str, seconds: Sequence[float]) -> tuple[str, str, str, str]:
    if not seconds:
        return (name, "0", "", "")
    return (name, str(len(seconds)), _ms(statistics.median(seconds)), _ms(max(seconds)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
