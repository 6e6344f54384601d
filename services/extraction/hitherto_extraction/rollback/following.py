"""What a roll-back brings back, and what has followed it meanwhile.

Of "lives in Oslo", "in Rome" and "in Bern" without "in Rome", nobody said that Bern ended Oslo, but
two of them may not hold: Bern may replace Oslo, as long as something says that it ended Rome.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from hitherto_extraction.rollback.histories import MemoryHistory
from hitherto_extraction.rollback.rebuilt import replacements
from hitherto_extraction.storage import editing, memories, statements
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, Memory


async def name_newer(
    user: UserRows,
    histories: Mapping[UUID, MemoryHistory],
    rebuilt: Mapping[UUID, EditableMemory],
    gone: Collection[UUID],
) -> None:
    """Let what replaced a memory that is gone name what that one had ended, and what is back.

    Nobody has said that the first ended when the last began, but two of them may not hold.
    """
    back = {
        memory_id: histories[by]
        for memory_id, each in histories.items()
        if (by := each.held.memory.superseded_by) is not None
        and by in gone
        and by in histories
        and rebuilt[memory_id].memory.status in CURRENT_STATUSES
    }
    ends = {each.held.memory.superseded_by for each in back.values()}
    newer = await editing.read(user, sorted(each for each in ends if each is not None))
    named = []
    for memory_id, between in back.items():
        by = between.held.memory.superseded_by
        if by is None or by not in newer or newer[by].memory.status != "active":
            continue
        link = _link_of(newer[by].memory, memory_id, between)
        if link is not None:
            await memories.add_may_replace(user, by, memory_id)
            named.append(link)
    await statements.record(user, named)


def _link_of(newer: Memory, older: UUID, between: MemoryHistory) -> NewStatement | None:
    """What makes one memory name another as what it may replace: it ended what came between.

    It goes with whatever said so; None if nothing that is left does.
    """
    said = [
        (each.conversation_id, each.document_id, each.job_id)
        for each in between.statements
        if not each.taken and newer.memory_id in {by for by, _ in replacements(each.said)}
    ]
    explained = {each.version for each in between.statements if each.made_version}
    settled = [
        (None, None, each.job_id)
        for each in between.versions
        if each.fields["superseded_by"] == newer.memory_id
        and each.version not in explained | between.skipped
    ]
    for conversation_id, document_id, job_id in (*said, *settled):
        return NewStatement(
            "challenged", newer.version, False, newer.origin, newer.valid_from,
            {"may_replace": [str(older)]}, newer.memory_id, conversation_id, document_id, job_id,
        )  # fmt: skip
    return None
