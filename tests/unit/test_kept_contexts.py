"""What is kept of contexts with a user's snapshot: the same again, and never much."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.incoming import BALANCED
from hitherto_retrieval.handlers.replies import context_reply
from hitherto_retrieval.render.block import render
from hitherto_retrieval.render.context import PromptContext
from hitherto_retrieval.repetition import text_of
from hitherto_retrieval.search.legs import Legs
from hitherto_retrieval.search.question import Question, SearchOutcome
from hitherto_retrieval.storage.cached_memories import CachedMemories, MemoryRow
from hitherto_retrieval.storage.cached_vectors import CachedVectors
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.snapshot import MOST_KEPT, KeptContexts
from hitherto_retrieval.user_context import ContextRequest, UserContext
from hitherto_shared.clock import utc_now
from hitherto_shared.models import Memory, Profile
from tests.unit.render_samples import FENCE_ID, memory

ZONE = ZoneInfo("UTC")
ROOM = 128 * 1024
SMALL_ROOM = 16 * 1024
PROFILE = Profile("ana")
WANTED = ContextRequest(
    question=Question("", 10, Filters(), utc_now(), BALANCED), conversation_id=None,
    max_memories=20, max_conversations=5, max_entities=10, max_tokens=1_000_000,
    newest_first=False, template="markdown", custom_template="", annotate=False,
)  # fmt: skip


def told(memories: Sequence[Memory], wanted: ContextRequest = WANTED) -> UserContext:
    """A context with these memories alone."""
    block = render(
        PromptContext(memories=memories),
        wanted.template,
        1_000_000,
        fence_id=FENCE_ID,
        custom_template=wanted.custom_template,
    )
    return UserContext(PROFILE, memories, SearchOutcome(), (), (), (), (), block)


def keep(contexts: KeptContexts, wanted: ContextRequest, found: UserContext) -> None:
    """Keep a context as `ContextBuilder` does."""
    kept = found.to_keep()
    assert kept is not None
    contexts.keep(wanted.key(ZONE, found.memories), *kept)


def listed(*numbers: int, content: str = "Tea.") -> list[Memory]:
    return [replace(memory(number, "fact", content), memo={}) for number in numbers]


def test_a_context_is_found_again_by_its_form_its_zone_and_its_list() -> None:
    contexts = KeptContexts(ROOM)
    keep(contexts, WANTED, told(listed(1, 2)))
    assert contexts.find(WANTED.key(ZONE, listed(1, 2))) is not None
    fields: Mapping[str, Any] = {
        "conversation_id": "c1", "max_conversations": 4, "max_entities": 4, "max_tokens": 400,
        "template": "about_the_user", "custom_template": "{{memories}}", "annotate": True,
        "line_dates": True,
    }  # fmt: skip
    others = [
        WANTED.key(ZONE, listed(2, 1)),
        WANTED.key(ZONE, listed(1)),
        WANTED.key(ZoneInfo("Asia/Tokyo"), listed(1, 2)),
        *(replace(WANTED, **{name: fields[name]}).key(ZONE, listed(1, 2)) for name in fields),
    ]
    assert [contexts.find(other) for other in others] == [None] * len(others)


def test_few_contexts_are_kept_and_the_oldest_ones_leave() -> None:
    contexts = KeptContexts(ROOM)
    keys = [WANTED.key(ZONE, listed(number)) for number in range(1, 10)]
    for number in range(1, 10):
        keep(contexts, WANTED, told(listed(number)))
    found = [contexts.find(key) is not None for key in keys]
    assert found == [False] * (len(keys) - MOST_KEPT) + [True] * MOST_KEPT
    # A large one leaves room for fewer.
    large = listed(20, content="x" * (ROOM - 8 * 1024))
    keep(contexts, WANTED, told(large))
    assert contexts.find(WANTED.key(ZONE, large)) is not None
    assert sum(contexts.find(key) is not None for key in keys) < MOST_KEPT - 1
    # One that is too large leaves the others alone.
    larger = listed(21, content="x" * ROOM)
    keep(contexts, WANTED, told(larger))
    assert contexts.find(WANTED.key(ZONE, larger)) is None
    assert contexts.find(WANTED.key(ZONE, large)) is not None


@pytest.mark.parametrize(
    ("letter", "room"),
    [("e", ROOM), ("é", SMALL_ROOM), *product("ế🙂", (ROOM, SMALL_ROOM))],
)
@pytest.mark.parametrize(
    ("count", "characters", "of_template"), [(5, 10, 7_900), (5, 10, 1_500), (100, 60, 0)]
)
def test_what_is_kept_takes_no_more_bytes_than_there_is_room_for(
    letter: str, room: int, count: int, characters: int, of_template: int
) -> None:
    """In any script, with long templates of the caller's own, and usage that differs each time."""
    cached = listed(*range(1, count + 1), content=letter * characters)
    fields: Mapping[str, Any] = {}
    if of_template:
        fields = {"template": "custom", "custom_template": letter * of_template + "{{memories}}"}

    def keep_several(contexts: KeptContexts) -> None:
        for number in range(MOST_KEPT):
            # Strings and memories of its own, as those of a request and of a new list are.
            given: Mapping[str, Any] = {
                name: "".join([*value]) if name == "custom_template" else value
                for name, value in fields.items()
            }
            wanted = replace(WANTED, max_tokens=1_000_000 - number, **given)
            used = [replace(each, access_count=number) for each in cached]
            context_reply(found := told(used, wanted), Legs())
            keep(contexts, wanted, found)

    # Lines and bytes that are kept with the memories themselves.
    keep_several(KeptContexts(room))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        contexts = KeptContexts(room)
        keep_several(contexts)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= room
    del contexts


def test_the_size_of_what_is_cached_counts_the_words_that_are_kept_with_it() -> None:
    """Pairs of characters, in a script without spaces, take far more than the text."""
    chance, letters = (
        random.Random(7),
        "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ",
    )
    cached = [
        replace(memory(number, "fact", "".join(chance.choices(letters, k=600))), memo={})
        for number in range(1, 101)
    ]
    none = CachedVectors([], 0)
    rows = [MemoryRow(each, n, len(each.content.encode()), ()) for n, each in enumerate(cached)]
    size = CachedMemories(rows, none, none, documents=100, compared=0, at=utc_now()).size
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        words = [text_of(each).words for each in cached]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= size
    assert all(text_of(each).words is kept for each, kept in zip(cached, words, strict=True))


def test_a_reply_written_again_is_the_same_and_tells_how_memories_were_used() -> None:
    context = told(listed(1, 2))
    first = context_reply(context, Legs())
    assert context_reply(context, Legs()) == first
    used = replace(context, memories=[replace(each, access_count=7) for each in context.memories])
    reply = pb.GetContextResponse.FromString(context_reply(used, Legs()))
    assert [each.access_count for each in reply.memories] == [7, 7]
