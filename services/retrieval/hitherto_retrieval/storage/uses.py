"""The usage of all memories of a user at once, which snapshots do not hold.

It changes with every answer, so a read with a snapshot fetches it along with the user's state. It
is one packed value: hundreds of rows would cost more than the rest of the read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from struct import Struct

import numpy as np

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

_USE = Struct(">qq")
_PACKED = np.dtype([("memory_id", "V16"), ("use", f"V{_USE.size}")])
_POSTGRES_MICROSECONDS = since_epoch(datetime(2000, 1, 1, tzinfo=UTC))
"""The origin of Postgres' microseconds."""


class Uses:
    """How often memories were returned, and when last.

    Args:
        packed: Ids, counts and times in Postgres' format; None if none was ever returned.
    """

    def __init__(self, packed: bytes | None) -> None:
        self._packed = packed or b""

    def of(self, memory_id: bytes) -> tuple[int, int | None]:
        """How often a memory was returned, and when last, in microseconds; None for never."""
        place = self._places.get(memory_id)
        if place is None:
            return 0, None
        count, at = _USE.unpack_from(self._packed, place)
        return count, at + _POSTGRES_MICROSECONDS

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """Where the usage of each memory stands."""
        ids = np.frombuffer(self._packed, dtype=_PACKED)["memory_id"].tolist()
        places = range(_PACKED["memory_id"].itemsize, len(self._packed), _PACKED.itemsize)
        return dict(zip(ids, places, strict=True))


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
