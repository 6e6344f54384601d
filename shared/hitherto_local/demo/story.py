"""What the demo asks the services, and what the answers cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from hitherto.v1 import conversation_pb2
from hitherto_client.results import Context, ConversationSummary, Memory, Profile, SearchResults
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts
from hitherto_client.words import MemoryStatus
from hitherto_local.demo.services import Running
from hitherto_local.demo.show import StoryPage
from hitherto_local.demo.work import DemoRun, SubmissionResult

_ALL_STATUSES: tuple[MemoryStatus, ...] = get_args(MemoryStatus)


@dataclass
class Story:
    """Where to print, whom to ask, and what was learnt."""

    page: StoryPage
    running: Running
    run: DemoRun
    work: SubmissionResult

    def context(self, user: str, query: str = "", **more: Any) -> Context:
        """What an assistant is told about a person of the file."""
        return self.running.client.get_context(self.run.user(user), query, **more)

    def search(self, user: str, query: str, **more: Any) -> SearchResults:
        """What is found about a person of the file."""
        return self.running.client.search(self.run.user(user), query, **more)

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
    path = Path(__file__).parent / "conversations.jsonl"
    return read_transcripts(str(path), Defaults())


def tell_cost(story: Story) -> None:
    """How long everything took, and what it cost."""
    page, work = story.page, story.work
    page.chapter("Time and cost")
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
