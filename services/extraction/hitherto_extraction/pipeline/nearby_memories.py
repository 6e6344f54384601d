"""Reads the known memories that a reply concerns, under the user's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.pipeline import sealed_memories
from hitherto_extraction.pipeline.answer import Answer, NewItem
from hitherto_extraction.pipeline.dedupe import Neighbour
from hitherto_extraction.pipeline.reply_vectors import Vectors
from hitherto_extraction.storage import forgettings, known_memories, mentions, superseded
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.sealed_rows import is_sensitive
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows

_NEIGHBOURS = 16
"""Known memories to read for each statement, however many statements there are, and how long."""
_PAIRS = 20_000
"""Maximum pairs of a statement and a nearby memory to read for one reply."""
_BYTES = 256 * 1024
"""Maximum bytes of the contents in these pairs. However many long statements of a user are nearly
equal, one more is compared in the same time."""
_MERGED = "superseded"


async def look_around(
    user: UserRows,
    items: Sequence[NewItem],
    vectors: Vectors,
    *,
    also: Iterable[UUID],
    threshold: float,
) -> tuple[dict[UUID, CurrentMemory], dict[int, list[Neighbour]]]:
    """Current rows, by id, of memories that items may repeat and of the memories in `also`.

    With it, for each item's index, the known memories near it. A merged memory is represented by
    its replacement.
    """
    wanted = vectors.of_new
    limit = max(_NEIGHBOURS, _PAIRS // max(1, len(items)))
    same, close, sealed, known = await together(
        user.connection,
        known_memories.find_same_words(user, {item.index: item.content for item in items}),
        known_memories.find_neighbours(
            user,
            {item.index: (item.type, wanted[item.index]) for item in items if item.index in wanted},
            model=vectors.model,
            at_least=threshold,
            fewest=_NEIGHBOURS,
            limit=limit,
            most_bytes=_BYTES // max(1, len(items)),
        ),
        sealed_memories.find_near(user, items, vectors, at_least=threshold, limit=limit),
        known_memories.read_known(user, list(dict.fromkeys(also))),
    )
    near: dict[tuple[int, UUID], float | None] = dict.fromkeys(same)
    for position, memory_id, cosine in close:
        near[position, memory_id] = cosine
    near |= sealed
    unread = {memory_id for _, memory_id in near} - known.keys()
    known |= await known_memories.read_known(user, list(unread))
    successors = await _successors(user, known)
    forgotten = [each.memory_id for each in known.values() if each.status == "forgotten"]
    for memory_id, made in (await forgettings.read(user, forgotten)).items():
        known[memory_id] = replace(
            known[memory_id],
            forgotten_at=made.at,
            taken_back_from=made.taken_back_from,
            partly_taken_back=made.partly_taken_back,
        )
    neighbours: defaultdict[int, list[Neighbour]] = defaultdict(list)
    for (position, memory_id), found in near.items():
        said = row = known[memory_id]
        if said.status == _MERGED:
            if memory_id not in successors:
                continue
            row = known[successors[memory_id]]
        neighbours[position].append(
            Neighbour(
                memory_id=row.memory_id,
                type=said.type,
                content=said.content,
                status=row.status,
                cosine=found,
                updated_at=row.updated_at,
                original=memory_id if row is not said else None,
                sensitive=row.sealed or is_sensitive(row.type, row.sensitive),
            )
        )
    return known, neighbours


async def _successors(user: UserRows, known: dict[UUID, CurrentMemory]) -> dict[UUID, UUID]:
    """For each merged memory its present replacement, which is added to the known ones."""
    merged = [row.memory_id for row in known.values() if row.status == _MERGED]
    if not merged:
        return {}
    found = await superseded.successors(user, merged)
    new = sorted(set(found.values()) - known.keys())
    known |= await known_memories.read_known(user, new)
    return found


async def reviewed(user: UserRows, answer: Answer) -> set[int]:
    """Positions of updates whose words a memory has already, whatever its status."""
    wanted = {each.index: each.content for each in answer.updated if each.content is not None}
    return {position for position, _ in await known_memories.find_same_words(user, wanted)}


async def own_names(
    user: UserRows, answer: Answer, local_memories: Mapping[str, UUID]
) -> Sequence[str]:
    """The names that nothing mentions but what the reply asks to forget."""
    if not answer.forgotten:
        return ()
    known = (local_memories.get(item.memory) for item in answer.forgotten)
    stated = {item.new for item in answer.forgotten}
    names = [each.name for new in answer.new if new.index in stated for each in new.entities]
    return await mentions.only_named_by(user, [each for each in known if each], names)
