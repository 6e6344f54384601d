"""Section 7 of the story: what is answered while the embedding model is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hitherto_client import Hitherto
from hitherto_client.results import LegReport
from hitherto_local.demo.model_server import DemoModelServer
from hitherto_shared.config import SharedSettings
from hitherto_shared.embeddings.factory import configured_embedder

if TYPE_CHECKING:
    from hitherto_local.demo.story import Story

FIRST = "Which table format did the team choose for the scan archive?"
SECOND = "What is the name of her cat?"
_SHOWN = 2
_LEGS = ("semantic", "keyword")


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
        _ask(story, client, FIRST)
        server.stop()
        page.say("\nThe server is stopped. A new question is answered by its words:")
        _ask(story, client, SECOND)
        page.say("\nAnd the question that it had embedded before is still known to the service:")
        _ask(story, client, FIRST)


def _ask(story: Story, client: Hitherto, query: str) -> None:
    page, user = story.page, story.run.user("maren")
    reply = story.timed("search, second service", lambda: client.search(user, query, limit=_SHOWN))
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
