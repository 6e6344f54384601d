"""The usage of all memories of a user at once, which snapshots do not hold.

It changes with every answer, so a read with a snapshot fetches it along with the user's state. It
is one packed value: hundreds of rows would cost more than the rest of the read.
"""

from __future__ import annotations

from collections.abc import Mapping
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
                          || timestamptz_send(a.last_accessed_at), ''::bytea)
        FROM memory_access AS a
        WHERE a.tenant_id = %(tenant_id)s AND a.user_id = %(user_id)s)
FROM (SELECT %(tenant_id)s::text AS tenant_id, %(user_id)s::text AS user_id) AS asked
LEFT JOIN users AS u ON u.tenant_id = asked.tenant_id AND u.user_id = asked.user_id
LEFT JOIN embedding_models AS e ON e.active
"""

_PACKED = np.dtype([("memory_id", "V16"), ("count", ">i8"), ("at", ">i8")])
_POSTGRES_MICROSECONDS = since_epoch(datetime(2000, 1, 1, tzinfo=UTC))
"""The origin of Postgres' microseconds."""
NEVER_USED = np.iinfo(np.int64).min
"""Earlier than all moments, in microseconds."""


@dataclass(frozen=True, slots=True)
class UsesOfEach:
    """How often each memory was returned, and when last, by its place in a snapshot.

    Attributes:
        counts: How often; 0 for never.
        at: When last, in microseconds; `NEVER_USED` for never.
    """

    counts: NDArray[np.int64]
    at: NDArray[np.int64]


class Uses:
    """How often memories were returned, and when last.

    Args:
        packed: Ids, counts and times in Postgres' format; None if none was ever returned.
    """

    def __init__(self, packed: bytes | None) -> None:
        self._rows = np.frombuffer(packed or b"", dtype=_PACKED)
        self._last: tuple[Mapping[bytes, int], UsesOfEach] | None = None

    def of_each(self, places: Mapping[bytes, int]) -> UsesOfEach:
        """The usage of memories by their places, kept for the next question about the same ones.

        Args:
            places: The places, from 0 on, by the bytes of the ids.
        """
        if self._last is None or self._last[0] is not places:
            counts = np.zeros(len(places), dtype=np.int64)
            at = np.full(len(places), NEVER_USED, dtype=np.int64)
            found = [places.get(each, -1) for each in self._rows["memory_id"].tolist()]
            these = np.asarray(found, dtype=np.int64)
            known = these >= 0
            counts[these[known]] = self._rows["count"][known]
            at[these[known]] = self._rows["at"][known] + _POSTGRES_MICROSECONDS
            self._last = places, UsesOfEach(counts, at)
        return self._last[1]


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
