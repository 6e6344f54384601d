"""Section 9 of the story: the very words, and what the last answer rested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hitherto_client.inputs import MessageInput
from hitherto_client.results import ContextItem

if TYPE_CHECKING:
    from examples.demo.story import Story

WORDS = "Which bars can she not eat?"
QUESTION = "Which table format did we choose for the scan archive?"
FOLLOW_UP = "And why that one?"
CONVERSATION = "maren-9-follow-up"


def tell_said(story: Story) -> None:
    """A search among messages with an excerpt, then a question that leans on the one before it."""
    story.page.chapter("9. What was said, and what was just spoken of")
    _tell_words(story)
    _tell_previous(story)


def _tell_words(story: Story) -> None:
    page = story.page
    reply = story.timed(
        "search in messages",
        lambda: story.running.client.search(
            story.run.user("maren"),
            WORDS,
            scopes=["messages"],
            excerpt_messages=1,
            limit=1,
        ),
    )
    page.say(f"maren asks: {WORDS}", "bold")
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
    found = client.search(user, QUESTION, limit=2)
    page.say(f"\nmaren asks: {QUESTION}", "bold")
    page.say("The assistant answers, and stores the items on which its answer is based:")
    for result in found:
        page.item(f"{result.score:.2f}  {result.text}")
    messages: list[MessageInput] = [
        {"role": "user", "content": QUESTION},
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
    client.add(user, messages, conversation=CONVERSATION)
    reply = story.timed(
        "context", lambda: client.get_context(user, FOLLOW_UP, conversation=CONVERSATION)
    )
    page.say(f"Then: {FOLLOW_UP}", "bold")
    page.say("The question names nothing. The context returns the items behind the last answer:")
    for result in reply.previous_items:
        page.item(f"{result.score:.2f}  {result.text}", "green")
    if not reply.previous_items:
        page.item("(nothing came back)", "red")
