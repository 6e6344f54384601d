"""The usage of all memories of a user at once, which snapshots do not hold.

It changes with every answer, so a read with a snapshot fetches it along with the user's state. It
is one packed value: hundreds of rows would cost more than the rest of the read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from struct import Struct

import numpy as np

from hitherto_retrieval.storage.cached_vectors import since_epoch
from hitherto_retrieval.storage.people import UserReadState, user_state
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Scope

_STATE_AND_USES = """
SELECT u.user_id IS NOT NULL, u.memory_enabled, u.time_zone, u.erased_at IS NOT NULL,
       coalesce(u.lexical_documents, 0), coalesce(u.lexical_terms, 0), e.model, e.dimensions,
       u.encrypt_sensitive IS NOT NULL, coalesce(u.revision, 0), now(),
       (SELECT string_agg(uuid_send(a.memory_id) || int8send(a.access_count)
                          || timestamptz_send(a.last_accessed_at),
                          ''::bytea ORDER BY a.memory_id)
        FROM memory_access AS a
        WHERE a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s)
FROM (SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id) AS asked
LEFT JOIN users AS u ON u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s
LEFT JOIN embedding_models AS e ON e.active
"""

Use = tuple[int, int]
"""How often a memory was returned, and when last, in microseconds."""
UseOf = Callable[[int], Use | None]
"""The use of the memory at a place; None if it was never returned."""
_PACKED = np.dtype([("memory_id", "V16"), ("use", "V16")])
_USE = Struct(">qq")
_POSTGRES_MICROSECONDS = since_epoch(datetime(2000, 1, 1, tzinfo=UTC))
"""The origin of Postgres' microseconds."""


class Uses:
    """How often memories were returned, and when last.

    Args:
        packed: Ids, counts and times in Postgres' format, in the order of the ids; None if none was
            ever returned.
    """

    def __init__(self, packed: bytes | None) -> None:
        self.packed = packed or b""

    def of(self, places: PlacesOfUses) -> UseOf:
        """The uses of a snapshot's memories by their places; each is read when it is looked up."""
        packed = self.packed
        rows = places.rows(np.frombuffer(packed, dtype=_PACKED)["memory_id"].tobytes())

        def use(place: int) -> Use | None:
            row = rows.get(place)
            if row is None:
                return None
            count, at = _USE.unpack_from(packed, row * _PACKED.itemsize + 16)
            return count, at + _POSTGRES_MICROSECONDS

        return use


class PlacesOfUses:
    """The rows of a snapshot's memories among all that were ever used.

    Every answer changes how often a memory was used, but few change which ones ever were: the rows
    are looked up only then.

    Args:
        memory_ids: The ids of the snapshot's memories.
    """

    def __init__(self, memory_ids: Sequence[bytes]) -> None:
        self._places = {memory_id: place for place, memory_id in enumerate(memory_ids)}
        self._of: tuple[bytes, Mapping[int, int]] = (b"", {})

    def rows(self, used: bytes) -> Mapping[int, int]:
        """The row of each memory by its place; `used` are the ids of all rows."""
        if used != self._of[0]:
            ids = [used[start : start + 16] for start in range(0, len(used), 16)]
            places = [self._places.get(each) for each in ids]
            self._of = used, {place: row for row, place in enumerate(places) if place is not None}
        return self._of[1]


@dataclass(frozen=True, slots=True)
class StateAndUses:
    """The state of a user, and the usage of the user's memories."""

    user: UserReadState
    uses: Uses


def state_and_uses(scope: Scope) -> Statement[StateAndUses]:
    """What a read of a user with a snapshot has to fetch."""

    def read(rows: Rows) -> StateAndUses:
        return StateAndUses(user_state(rows[0]), Uses(rows[0][11]))

    return Statement(
        _STATE_AND_USES, {"tenant_id": scope.tenant_id, "user_id": scope.user_id}, read
    )
