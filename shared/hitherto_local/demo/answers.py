"""Where an assistant asks: use cases, search, the past, the very words, and the prompt block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hitherto_client import Hitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.results import (
    Context,
    ContextItem,
    ConversationSummary,
    LegReport,
    SearchResult,
)
from hitherto_local.demo.model_server import DemoModelServer
from hitherto_local.demo.show import EARLIEST, day
from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.factory import configured_embedder

if TYPE_CHECKING:
    from hitherto_local.demo.story import Story

_SUGGESTIONS = 3
_SUGGESTION_LENGTH = 100
_RECENT = 5
_SHOWN = 3
_BUDGET = 800
_USE_CASE = "Use case: "
_URGENCY = ("needs_followup", "ongoing", "resolved")
_PAST_QUERY = "Where does she live, or has she moved?"
_BEFORE = datetime(2026, 9, 1, tzinfo=UTC)
"""After she had introduced herself, before she moved."""
_AFTER = datetime(2026, 10, 20, tzinfo=UTC)
_WORDS = "Which bars can she not eat?"
_QUESTION = "Which table format did we choose for the scan archive?"
_FOLLOW_UP = "And why that one?"
_CONVERSATION = "maren-9-follow-up"
_FIRST = "Which table format did the team choose for the scan archive?"
_SECOND = "What is the name of her cat?"
_LEGS = ("semantic", "keyword")


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
    page = story.page
    # Without the memories that come for their importance: what is told was found for the question.
    reply = story.context(item["user_id"], item["query"], max_memories=0)
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
    reply = story.search(item["user_id"], item["query"], explain=True, limit=_SHOWN)
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


def tell_degraded(story: Story) -> None:
    """Ask with the embedding server there, stop it, and ask again."""
    page = story.page
    page.chapter("7. When the embedder is away")
    page.say(
        "A second retrieval service reads the same database. It has its vectors from a small "
        "server of this demo, which embeds as the first service does. While that server runs:"
    )
    with (
        DemoModelServer(configured_embedder(SharedSettings())) as server,
        story.running.another_reader(server.settings) as client,
    ):
        _ask_again(story, client, _FIRST)
        server.stop()
        page.say("\nThe server is stopped. A new question is answered by its words:")
        _ask_again(story, client, _SECOND)
        page.say("\nAnd the question that it had embedded before is still known to the service:")
        _ask_again(story, client, _FIRST)


def _ask_again(story: Story, client: Hitherto, query: str) -> None:
    page, user = story.page, story.run.user("maren")
    reply = story.timed("search, second service", lambda: client.search(user, query, limit=2))
    page.say(f"maren asks: {query}", "bold")
    for result in reply:
        page.item(f"{result.score:.2f}  {result.text}  (found by {', '.join(result.matched_legs)})")
    legs = {leg.name: leg for leg in reply.legs}
    for name in _LEGS:
        if name in legs:
            style = "" if legs[name].state == "ran" else "yellow"
            page.item(f"{name}: {_state(legs[name])}", style)
    if reply.degraded:
        page.item("the reply says that it is degraded", "yellow")
    else:
        page.item("the reply is whole", "green")


def _state(leg: LegReport) -> str:
    state = leg.state.replace("_", " ")
    return f"{state} ({leg.reason})" if leg.reason else f"{state}, {leg.candidates} found"


def tell_past(story: Story) -> None:
    """What was true on two days, and what was known before the conversations came in."""
    page = story.page
    page.chapter("8. What was true then")
    page.say(f"“{_PAST_QUERY}”, asked about two days (as_of), and what the best answer is:")
    for moment in (_BEFORE, _AFTER):
        _tell_then(story, moment)
    first = min(at for item in story.work.learnt if (at := item.job.created_at))
    earlier = first - timedelta(minutes=1)
    known = story.running.client.memories(
        story.run.user("maren"), as_of=_BEFORE, known_at=earlier
    ).page()
    page.say(
        f"What was true is one thing, what was known another: a minute before the conversations "
        f"were handed over (known_at), {known.total_size} memories were known of that day."
    )


def _tell_then(story: Story, moment: datetime) -> None:
    page, zone = story.page, story.zone("maren")
    reply = story.search("maren", _PAST_QUERY, "search in the past", limit=1, as_of=moment)
    for memory in (result.memory for result in reply if result.memory):
        since, until = day(memory.valid_from, zone), "today"
        if memory.valid_to:
            until = day(memory.valid_to, zone)
        page.item(f"on {moment:%Y-%m-%d}: “{memory.content}” ({since} to {until})", "green")
    if not reply.results:
        page.item(f"on {moment:%Y-%m-%d}: nothing was true", "red")


def tell_said(story: Story) -> None:
    """A search among messages with an excerpt, then a question that leans on the one before it."""
    story.page.chapter("9. What was said, and what was just spoken of")
    _tell_words(story)
    _tell_previous(story)


def _tell_words(story: Story) -> None:
    page = story.page
    reply = story.search(
        "maren", _WORDS, "search in messages", scopes=["messages"], excerpt_messages=1, limit=1
    )
    page.say(f"maren asks: {_WORDS}", "bold")
    page.say("The best message, with the one before and the one after it:")
    for result in reply:
        found = result.message
        for message in result.excerpt:
            mark = "  ← found" if found and message.id == found.id else ""
            page.quote(f"{message.role}: {message.content}{mark}")
        page.item(f"said in {found.conversation_id if found else ''}", "green")
    if not reply.results:
        page.item("(no message fits)", "red")


def _tell_previous(story: Story) -> None:
    page, client, user = story.page, story.running.client, story.run.user("maren")
    found = client.search(user, _QUESTION, limit=2)
    page.say(f"\nmaren asks: {_QUESTION}", "bold")
    page.say("The assistant answers, and stores the items on which its answer is based:")
    for result in found:
        page.item(f"{result.score:.2f}  {result.text}")
    messages: list[MessageInput] = [
        {"role": "user", "content": _QUESTION},
        {
            "role": "assistant",
            "content": "Iceberg.",
            "context_items": [
                ContextItem(id=result.memory.id, relevance=result.score)
                for result in found
                if result.memory
            ],
        },
    ]
    client.add(user, messages, conversation=_CONVERSATION)
    reply = story.context("maren", _FOLLOW_UP, conversation=_CONVERSATION)
    page.say(f"Then: {_FOLLOW_UP}", "bold")
    page.say("The question names nothing. The context returns the items behind the last answer:")
    for result in reply.previous_items:
        page.item(f"{result.score:.2f}  {result.text}", "green")
    if not reply.previous_items:
        page.item("(nothing came back)", "red")


def tell_block(story: Story) -> None:
    """Section 10: the text for an assistant's prompt."""
    page = story.page
    page.chapter("10. What the assistant is told")
    query = "Where does she live, and which answers does she prefer?"
    reply = story.context("maren", query, template="what_you_know", max_tokens=_BUDGET)
    page.say(
        f"Maren's context for “{query}”, in the template WHAT_YOU_KNOW, within {_BUDGET} tokens "
        f"({reply.prompt_tokens} are used):"
    )
    page.block(reply.prompt_block)
