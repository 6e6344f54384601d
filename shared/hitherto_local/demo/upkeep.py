"""Section 11 of the story: memories saved by hand, merged, taken apart again, and looked after."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hitherto_client.results import SavedMemory

if TYPE_CHECKING:
    from hitherto_local.demo.story import Story

TAG = "writing_style"
SAVED = (
    "Prefers bullet points to long paragraphs.",
    "Prefers plain words to jargon.",
    "Prefers examples before definitions.",
    "Prefers short sentences.",
    "Prefers numbers in tables.",
)
"""Five statements about one thing: as few as a merge on request works with."""


def tell_upkeep(story: Story) -> None:
    """Save, merge, undo; then what decay would do and what the work has cost so far."""
    page = story.page
    page.chapter("11. Upkeep")
    _tell_merge(story)
    reply = story.running.client.run_decay(story.run.user("maren"), dry_run=True)
    counts = reply.counts
    page.say(
        f"\nDecay, as a dry run over Maren's memories: {counts['archived']} would be archived now "
        f"({counts['archived_low_importance']} of little importance and unused for 30 days, "
        f"{counts['archived_context']} of context older than 90 days). A schedule does it every "
        "night; decisions never decay, and nothing is deleted."
    )
    _tell_usage(story)


def _tell_merge(story: Story) -> None:
    page, client = story.page, story.running.client
    user = story.run.user("maren")
    page.say("An assistant saves five remarks by Maren about the same thing, one call each:")
    ids = []
    for content in SAVED:
        saved = story.timed("save", partial(_save, story, content))
        ids.append(saved.memory.id)
        page.item(saved.memory.content)
    begun = client.consolidate(user, tag=TAG)
    job = client.wait_for_job(begun.job, timeout=120) if begun.job else None
    merged = [
        memory for memory in story.memories("maren", "active") if memory.source == "consolidation"
    ]
    if not merged:
        page.say(
            f"Consolidation found nothing to merge ({job.result.counts if job else {}}): the model "
            "answered nothing that its originals support."
        )
        return
    page.say("Consolidation merges them:")
    for memory in merged:
        page.item(f"“{memory.content}” replaces {len(memory.supersedes)} memories", "green")
    page.say("The originals are kept as superseded. Undoing it restores them:")
    for memory in merged:
        for original in client.undo_consolidation(user, memory.id):
            page.item(f"{original.content} (version {original.version})")
    _tell_history(story, ids[0])


def _save(story: Story, content: str) -> SavedMemory:
    return story.running.client.save_memory(
        story.run.user("maren"), content, type="preference", tags=[TAG]
    )


def _tell_history(story: Story, memory_id: str) -> None:
    events = list(story.running.client.memory_history(story.run.user("maren"), memory_id))
    steps = [f"{event.kind} by {event.actor}" for event in reversed(events)]
    story.page.say(f"The history of the first: {', '.join(steps)}.")


def _tell_usage(story: Story) -> None:
    report = story.running.client.get_usage(story.run.user("maren"), group_by=["kind"])
    story.page.say("\nWhat Maren's memory has cost so far, by kind of work (GetUsage):")
    story.page.table(
        ("work", "calls#", "tokens in#", "and out#", "embeddings#", "US dollars#"),
        [
            (
                row.kind,
                str(row.usage.llm_calls),
                f"{row.usage.input_tokens:,}",
                f"{row.usage.output_tokens:,}",
                str(row.usage.embedding_calls),
                f"{row.usage.cost_usd:.4f}",
            )
            for row in report.rows
        ],
    )
