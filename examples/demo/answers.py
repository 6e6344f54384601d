"""The part of the story in which an assistant asks: use cases, search, and the prompt block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from examples.demo.show import EARLIEST, day
from hitherto_client.results import Context, ConversationSummary, SearchResult

if TYPE_CHECKING:
    from examples.demo.story import Story

_SUGGESTIONS = 3
_SUGGESTION_LENGTH = 100
_RECENT = 5
_SHOWN = 3
_BUDGET = 800
_USE_CASE = "Use case: "
_URGENCY = ("needs_followup", "ongoing", "resolved")


def tell_use_cases(story: Story, asked: Sequence[Mapping[str, Any]]) -> None:
    """Section 4: the use cases that the product began with."""
    page = story.page
    page.chapter("4. Three use cases")
    first, second = (item for item in asked if item["about"].startswith(_USE_CASE))

    page.say("Use case 1: a later conversation knows the person", "bold")
    _ask(story, first)

    page.say("\nUse case 2: a question is completed by the conversation before it", "bold")
    reply = _ask(story, second)
    latest = max(reply.conversations, key=lambda item: item.updated_at or EARLIEST)
    page.say("The latest conversation comes with the context, and says what the question is about:")
    page.item(f"{latest.title}")
    page.item(latest.summary)

    page.say("\nUse case 3: suggestions for a new chat", "bold")
    page.say("From the follow-ups in the summaries of the last conversations, open matters first:")
    for user in ("diem", "maren"):
        page.say(f"{user}:")
        for suggestion in _suggestions(story.conversations(user)):
            page.item(suggestion)


def _suggestions(summaries: Sequence[ConversationSummary]) -> list[str]:
    """Up to three follow-ups of the last conversations, those that wait for somebody first."""
    recent = [item for item in summaries[:_RECENT] if item.outcome in _URGENCY]
    recent.sort(key=lambda item: _URGENCY.index(item.outcome))
    found = (text for item in recent for text in item.followup_suggestions)
    return list(dict.fromkeys(t for t in found if len(t) <= _SUGGESTION_LENGTH))[:_SUGGESTIONS]


def tell_answers(story: Story, asked: Sequence[Mapping[str, Any]]) -> None:
    """Section 6: one search with its explanation, then the other questions."""
    page = story.page
    page.chapter("6. Search, explained")
    others = [item for item in asked if not item["about"].startswith(_USE_CASE)]
    _explain(story, others[1])
    page.say("\nMore questions, each with its best results:", "bold")
    for number, item in enumerate(others):
        if number:
            page.say("")
        _ask(story, item)


def _ask(story: Story, item: Mapping[str, Any]) -> Context:
    """Ask for the context of one question and print what comes back first."""
    page, user = story.page, story.run.user(item["user_id"])
    # Without the memories that come for their importance: what is told was found for the question.
    reply = story.timed(
        "context",
        lambda: story.running.client.get_context(user, item["query"], max_memories=0),
    )
    page.say(f"{item['user_id']} asks: {item['query']}", "bold")
    page.say(item["about"].removeprefix(_USE_CASE))
    for result in reply.relevant[:_SHOWN]:
        if result.message:
            page.item(f"{result.score:.2f}  said on {day(result.message.created_at)}:")
            page.quote(result.message.content)
        else:
            page.item(f"{result.score:.2f}  {_found(result)}")
    if not reply.relevant:
        page.item("(nothing fits)")
    lines = reply.prompt_block.split("\n")
    for wanted in item["expect"]:
        line = next((line for line in lines if wanted in line), None)
        if line is None:
            page.item(f"the context says nothing of “{wanted}”", "red")
        else:
            page.item(f"the context says “{wanted}”: {line.removeprefix('- ')}", "green")
    return reply


def _found(result: SearchResult) -> str:
    """What was found, of whatever kind it is."""
    if result.memory:
        reached = result.memory.status == "achieved"
        since = f"since {day(result.memory.valid_from)}"
        return f"{result.text} ({'reached' if reached else since})"
    if result.summary:
        return f"in a conversation: {result.text or result.summary.title}"
    if result.document_chunk:
        return f"in “{result.document_chunk.title}”: {result.text}"
    return f"said: {result.text}"


def _explain(story: Story, item: Mapping[str, Any]) -> None:
    page = story.page
    reply = story.timed(
        "search",
        lambda: story.running.client.search(
            story.run.user(item["user_id"]), item["query"], explain=True, limit=_SHOWN
        ),
    )
    page.say(f"{item['user_id']} asks: {item['query']}", "bold")
    for place, found in enumerate(reply.results, start=1):
        page.item(f"#{place}  {_found(found)}")
    most: dict[str, float] = {}
    for found in reply.results:
        for name, part in found.breakdown.items():
            most[name] = max(most.get(name, 0.0), abs(part))
    # A fixed order: a map on the wire has none.
    parts = sorted((name for name in most if most[name]), key=lambda name: (-most[name], name))
    page.table(
        ("what adds to the score", *(f"#{n}#" for n in range(1, len(reply.results) + 1))),
        [
            *(
                (name, *(f"{found.breakdown.get(name, 0.0):.4f}" for found in reply.results))
                for name in parts
            ),
            ("score", *(f"{found.score:.4f}" for found in reply.results)),
        ],
    )
    off = max(
        (abs(sum(found.breakdown.values()) - found.score) for found in reply.results), default=0.0
    )
    told = "add up to the score" if off < 1e-6 else f"differ from the score by {off:.3g}"
    page.say(f"The parts of each result {told}. The legs of the search:")
    for leg in reply.legs:
        state = leg.state.replace("_", " ")
        reason = f" ({leg.reason})" if leg.reason else ""
        milliseconds = leg.duration.total_seconds() * 1e3
        page.item(f"{leg.name}: {state}{reason}, {leg.candidates} found, {milliseconds:.1f} ms")


def tell_block(story: Story) -> None:
    """Section 10: the text for an assistant's prompt."""
    page = story.page
    page.chapter("10. What the assistant is told")
    query = "Where does she live, and how does she like answers?"
    reply = story.timed(
        "context",
        lambda: story.running.client.get_context(
            story.run.user("maren"),
            query,
            template="what_you_know",
            max_tokens=_BUDGET,
        ),
    )
    page.say(
        f"Maren's context for “{query}”, in the template WHAT_YOU_KNOW, within {_BUDGET} tokens "
        f"({reply.prompt_tokens} are used):"
    )
    page.block(reply.prompt_block)
