"""Section 9 of the story: the very words, and what the last answer rested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.show import word
from hitherto.v1 import conversation_pb2, search_pb2

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
        lambda: story.running.client.search_memories(
            story.run.user("maren"),
            WORDS,
            scopes=[search_pb2.SEARCH_SCOPE_MESSAGES],
            excerpt_messages=1,
            limit=1,
        ),
    )
    page.say(f"maren asks: {WORDS}", "bold")
    page.say("The best message, with the one before and the one after it:")
    for result in reply.results:
        for message in result.excerpt:
            who = word(conversation_pb2.Role, message.role)
            mark = "  ← found" if message.id == result.message.id else ""
            page.quote(f"{who}: {message.content}{mark}")
        page.item(f"said in {result.message.conversation_id}", "green")
    if not reply.results:
        page.item("(no message fits)", "red")


def _tell_previous(story: Story) -> None:
    page, client, user = story.page, story.running.client, story.run.user("maren")
    found = client.search_memories(user, QUESTION, limit=2).results
    page.say(f"\nmaren asks: {QUESTION}", "bold")
    page.say("The assistant answers, and stores the items on which its answer is based:")
    for result in found:
        page.item(f"{result.score:.2f}  {result.memory.content}")
    written = client.append_messages(
        user,
        CONVERSATION,
        [
            conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content=QUESTION),
            conversation_pb2.Message(
                role=conversation_pb2.ROLE_ASSISTANT,
                content="Iceberg.",
                context_items=[
                    conversation_pb2.ContextItem(id=result.memory.id, relevance=result.score)
                    for result in found
                ],
            ),
        ],
    )
    reply = story.timed(
        "context",
        lambda: client.get_context(
            user,
            FOLLOW_UP,
            conversation_id=CONVERSATION,
            consistency_token=written.consistency_token,
        ),
    )
    page.say(f"Then: {FOLLOW_UP}", "bold")
    page.say("The question names nothing. The context returns the items behind the last answer:")
    for result in reply.previous_items:
        page.item(f"{result.score:.2f}  {result.memory.content}", "green")
    if not reply.previous_items:
        page.item("(nothing came back)", "red")
