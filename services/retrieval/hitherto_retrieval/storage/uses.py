"""The usage of all memories of a user at once, which snapshots do not hold.

It changes with every answer, so a read with a snapshot fetches it along with the user's state. It
is one packed value: hundreds of rows would cost more than the rest of the read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np

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
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""The origin of Postgres' microseconds."""


class Uses:
    """How often memories were returned, and when last.

    Args:
        packed: Ids, counts and times in Postgres' format; None if none was ever returned.
    """

    def __init__(self, packed: bytes | None) -> None:
        rows = np.frombuffer(packed or b"", dtype=_PACKED)
        self._of: dict[bytes, tuple[int, int]] = dict(
            zip(
                rows["memory_id"].tolist(),
                zip(rows["count"].tolist(), rows["at"].tolist(), strict=True),
                strict=True,
            )
        )

    def of(self, memory_id: UUID) -> tuple[int, datetime | None]:
        """How often a memory was returned, and when last; 0 and None for never."""
        use = self._of.get(memory_id.bytes)
        if use is None:
            return 0, None
        return use[0], _POSTGRES_EPOCH + timedelta(microseconds=use[1])


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
