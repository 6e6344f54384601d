"""Section 8 of the story: the same question, put to different times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from examples.demo.show import day

if TYPE_CHECKING:
    from examples.demo.story import Story

QUERY = "Where does she live, or has she moved?"
BEFORE = datetime(2026, 9, 1, tzinfo=UTC)
"""After she had introduced herself, before she moved."""
AFTER = datetime(2026, 10, 20, tzinfo=UTC)


def tell_past(story: Story) -> None:
    """What was true on two days, and what was known before the conversations came in."""
    page = story.page
    page.chapter("8. What was true then")
    page.say(f"“{QUERY}”, asked about two days (as_of), and what the best answer is:")
    for moment in (BEFORE, AFTER):
        _tell(story, moment)
    first = min(at for item in story.work.learnt if (at := item.job.created_at))
    earlier = first - timedelta(minutes=1)
    known = story.running.client.memories(
        story.run.user("maren"), as_of=BEFORE, known_at=earlier
    ).page()
    page.say(
        f"What was true is one thing, what was known another: a minute before the conversations "
        f"were handed over (known_at), {known.total_size} memories were known of that day."
    )


def _tell(story: Story, moment: datetime) -> None:
    page, zone = story.page, story.zone("maren")
    reply = story.timed(
        "search in the past",
        lambda: story.running.client.search(story.run.user("maren"), QUERY, limit=1, as_of=moment),
    )
    for memory in (result.memory for result in reply if result.memory):
        since, until = day(memory.valid_from, zone), "today"
        if memory.valid_to:
            until = day(memory.valid_to, zone)
        page.item(f"on {moment:%Y-%m-%d}: “{memory.content}” ({since} to {until})", "green")
    if not reply.results:
        page.item(f"on {moment:%Y-%m-%d}: nothing was true", "red")
