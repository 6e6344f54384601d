"""What else rested on memories that are rebuilt: doubts that they caused, and confirmations."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from hitherto_extraction.pipeline import doubts
from hitherto_extraction.rollback.histories import MemoryHistory
from hitherto_extraction.storage import doubts as doubts_storage
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES
from hitherto_shared.text.normalise import fold


async def clear_doubts(
    user: UserRows,
    histories: Mapping[UUID, MemoryHistory],
    rebuilt: Mapping[UUID, EditableMemory],
    *,
    actor: str,
) -> None:
    """Let nothing be in doubt because of what another memory said, or that it had ended.

    Unless that one is as it was when the doubt began.
    """
    now = {m: _cause(each.memory.status, each.memory.content) for m, each in rebuilt.items()}
    moved = {
        m: each
        for m, each in histories.items()
        if now[m] != _cause(each.held.memory.status, each.held.memory.content)
    }
    doubted = await doubts_storage.in_doubt(user, because=moved) if moved else []
    versions = await storage.read_versions(user, doubted) if doubted else {}
    certain = []
    for memory_id, stored in versions.items():
        because = UUID(stored[-1].fields["doubt"]["because"])
        first = stored[-1]
        for each in reversed(stored):
            if (each.fields["doubt"] or {}).get("because") == str(because):
                first = each
            elif each.fields["status"] in CURRENT_STATUSES:
                # What had ended meanwhile was in no doubt.
                break
        then = [each for each in moved[because].versions if each.at <= first.at][-1:]
        was = [_cause(each.fields["status"], each.fields["content"]) for each in then]
        if was != [now[because]]:
            certain.append(memory_id)
    await doubts.clear(user, certain, actor=actor)


def confirmed_otherwise(
    histories: Mapping[UUID, MemoryHistory], rebuilt: Mapping[UUID, EditableMemory]
) -> set[UUID]:
    """The memories whose last confirmation may not count any more.

    While one was forgotten, nothing confirmed it. What one was joined to was confirmed by it.
    """
    found = set[UUID]()
    for memory_id, each in histories.items():
        held, after = each.held.memory, rebuilt[memory_id].memory
        said = [s for s in each.statements if s.action in ("said", "updated")]
        left = sum(not s.taken for s in said)
        gone = {s.said_at for s in said if s.taken}
        last = held.last_confirmed_at
        if held.status == "forgotten" != after.status or (
            last is not None and gone and (left < 2 or last in gone)
        ):
            found.add(memory_id)
        stands_for_it = (m.superseded_by for m in (held, after) if m.status == "superseded")
        found.update(by for by in stands_for_it if by is not None)
    return found


def _cause(status: str, content: str) -> tuple[bool, str]:
    """What a memory may make others doubt by: that it has ended, and its words."""
    return status == "contradicted", fold(content)
