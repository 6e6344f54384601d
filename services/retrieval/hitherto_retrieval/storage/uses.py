"""The usage of all memories of a user at once, which snapshots do not hold.

It changes with every answer, so a read with a snapshot fetches it along with the user's state. It
is one packed value: hundreds of rows would cost more than the rest of the read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.held_vectors import since_epoch
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
LEFT JOIN users AS u ON u.tenant_id = asked.tenant_id AND u.user_id = asked.user_id
LEFT JOIN embedding_models AS e ON e.active
"""

Places = NDArray[np.int64]
_NONE: Places = np.zeros(0, dtype=np.int64)
_PACKED = np.dtype([("memory_id", "V16"), ("count", ">i8"), ("at", ">i8")])
_POSTGRES_MICROSECONDS = since_epoch(datetime(2000, 1, 1, tzinfo=UTC))
"""The origin of Postgres' microseconds."""
NEVER_USED = np.iinfo(np.int64).min
"""In place of a time."""


class Uses:
    """How often memories were returned, and when last.

    Args:
        packed: Ids, counts and times in Postgres' format, in the order of the ids; None if none was
            ever returned.
    """

    def __init__(self, packed: bytes | None) -> None:
        self._rows = np.frombuffer(packed or b"", dtype=_PACKED)
        self._columns: tuple[list[int], list[int]] | None = None

    def columns(self, places: PlacesOfUses) -> tuple[list[int], list[int]]:
        """How often each memory of a snapshot was returned, and when last, in microseconds.

        The time is `NEVER_USED` for one that never was.
        """
        if self._columns is None:
            rows = self._rows
            known, of_known = places.of(rows["memory_id"].tobytes())
            counts = np.zeros(len(places), dtype=np.int64)
            times = np.full(len(places), NEVER_USED, dtype=np.int64)
            counts[of_known] = rows["count"][known]
            times[of_known] = rows["at"][known] + _POSTGRES_MICROSECONDS
            self._columns = counts.tolist(), times.tolist()
        return self._columns


class PlacesOfUses:
    """The places of a snapshot's memories among all that were ever used.

    Every answer changes how often a memory was used, but few change which ones ever were: the
    places are looked up only then.

    Args:
        memory_ids: The ids of the snapshot's memories.
    """

    def __init__(self, memory_ids: Sequence[bytes]) -> None:
        self._places = {memory_id: place for place, memory_id in enumerate(memory_ids)}
        self._of: tuple[bytes, Places, Places] = (b"", _NONE, _NONE)

    def __len__(self) -> int:
        return len(self._places)

    def of(self, used: bytes) -> tuple[Places, Places]:
        """Which of the used memories the snapshot holds, and the places of these there."""
        if used != self._of[0]:
            ids = [used[start : start + 16] for start in range(0, len(used), 16)]
            found = [self._places.get(each, -1) for each in ids]
            places = np.asarray(found, dtype=np.int64)
            known = np.flatnonzero(places >= 0)
            self._of = used, known, places[known]
        return self._of[1:]


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
