"""What is kept of contexts with a user's sections: the same again, and never much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.incoming import BALANCED
from hitherto_retrieval.handlers.replies import MOST_BYTES_KEPT, context_reply
from hitherto_retrieval.render.block import render
from hitherto_retrieval.render.context import PromptContext
from hitherto_retrieval.search.legs import Legs
from hitherto_retrieval.search.question import Question, SearchOutcome
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.user_context import (
    MOST_CHARACTERS_KEPT,
    MOST_KEPT,
    Alike,
    ContextRequest,
    UserContext,
)
from hitherto_shared.clock import utc_now
from hitherto_shared.models import Kept, Memory, Profile
from tests.unit.render_samples import FENCE_ID, memory

ZONE = ZoneInfo("UTC")
WANTED = ContextRequest(
    question=Question("", 10, Filters(), utc_now(), BALANCED),
    conversation_id=None,
    max_memories=20,
    max_conversations=5,
    max_entities=10,
    max_tokens=1_000_000,
    newest_first=False,
    template="markdown",
    custom_template="",
    annotate=False,
)


def told(memories: Sequence[Memory]) -> UserContext:
    """A context with these memories alone."""
    block = render(PromptContext(memories=memories), "markdown", 1_000_000, fence_id=FENCE_ID)
    return UserContext(Profile("ana"), memories, SearchOutcome(), (), (), (), (), block, {})


def listed(*numbers: int, content: str = "Tea.") -> list[Memory]:
    return [replace(memory(number, "fact", content), kept={}) for number in numbers]


def test_a_context_is_found_again_by_its_form_its_zone_and_its_list() -> None:
    kept: Kept = {}
    Alike(kept, WANTED, ZONE, listed(1, 2)).keep(told(listed(1, 2)))
    assert Alike(kept, WANTED, ZONE, listed(1, 2)).known is not None
    fields: Mapping[str, Any] = {
        "conversation_id": "c1",
        "max_conversations": 4,
        "max_entities": 4,
        "max_tokens": 400,
        "template": "about_the_user",
        "custom_template": "{{memories}}",
        "annotate": True,
        "line_dates": True,
    }
    others = [
        Alike(kept, WANTED, ZONE, listed(2, 1)),
        Alike(kept, WANTED, ZONE, listed(1)),
        Alike(kept, WANTED, ZoneInfo("Asia/Tokyo"), listed(1, 2)),
        Alike({}, WANTED, ZONE, listed(1, 2)),
    ]
    for name, value in fields.items():
        others.append(Alike(kept, replace(WANTED, **{name: value}), ZONE, listed(1, 2)))
    assert [other.known for other in others] == [None] * len(others)


def test_few_and_short_contexts_are_kept() -> None:
    kept: Kept = {}
    for number in range(1, 10):
        Alike(kept, WANTED, ZONE, listed(number)).keep(told(listed(number)))
    (contexts,) = kept.values()
    assert len(contexts) == MOST_KEPT
    long = listed(*range(20, 60), content="x" * (MOST_CHARACTERS_KEPT // 39))
    large = replace(WANTED, custom_template="x" * MOST_CHARACTERS_KEPT)
    for wanted, memories in ((WANTED, long), (large, listed(70))):
        Alike(kept, wanted, ZONE, memories).keep(told(memories))
        assert Alike(kept, wanted, ZONE, memories).known is None


def test_a_kept_reply_is_the_reply_written_anew_and_tells_how_memories_were_used() -> None:
    context = told(listed(1, 2))
    first = context_reply(context, Legs())
    assert context.kept
    assert context_reply(context, Legs()) == first
    used = replace(context, memories=[replace(each, access_count=7) for each in context.memories])
    reply = pb.GetContextResponse.FromString(context_reply(used, Legs()))
    assert [each.access_count for each in reply.memories] == [7, 7]


def test_large_items_of_a_reply_are_not_kept() -> None:
    context = told(listed(1, content="x" * MOST_BYTES_KEPT))
    assert len(context_reply(context, Legs())) > MOST_BYTES_KEPT
    assert not context.kept
