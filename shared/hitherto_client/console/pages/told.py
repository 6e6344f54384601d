"""What the assistant would be told for a question, and how each part of it was found."""

from __future__ import annotations

from typing import get_args

from starlette.responses import Response

from hitherto_client.console.visits import Visit, look
from hitherto_client.words import PromptTemplate

_TEMPLATES = tuple(name for name in get_args(PromptTemplate) if name != "custom")
_MOST_TOKENS = 32_000


async def _told(visit: Visit) -> Response:
    given = visit.address
    template = given.word("template", _TEMPLATES)
    max_tokens = given.whole("max_tokens", least=1, most=_MOST_TOKENS)
    context = await visit.client.get_context(
        visit.user,
        given.text("q"),
        conversation=given.text("conversation"),
        template=template,
        max_tokens=max_tokens,
        as_of=given.day("as_of"),
        known_at=given.day("known_at"),
        # Looking at what would be told must not change it.
        count_access=False,
    )
    return visit.page(
        "told.html",
        query=given.text("q"),
        context=context,
        templates=_TEMPLATES,
        template=template or "",
        max_tokens=max_tokens,
        conversation=given.text("conversation"),
        as_of=given.text("as_of"),
        known_at=given.text("known_at"),
    )


ROUTES = (look("/told", _told),)
