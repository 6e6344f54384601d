"""Writes audit entries: who did what to whose data, with hashes for people and ids for resources.

The log outlives everybody in it, so nothing may enter it that a person wrote or is identified by.
Users become keyed hashes, even where a user's id is part of a credential's name. Only ids of
resources that are UUIDs are recorded: callers choose the ids of conversations and sessions, which
may contain a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from hitherto_shared.auth.principal import Principal
from hitherto_shared.database import audit_log
from hitherto_shared.database.pool import Connection
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.rpc.call import maybe_current_call
from hitherto_shared.user_hash import credential_hash, user_hash

NOBODY = ""
"""Replaces the user if an entry is about none, or about everybody."""

MAX_RESOURCES = 1_000
"""Maximum ids of one entry."""

Touched = Mapping[str, Iterable[str]]
"""The users concerned, `NOBODY` for none, with the ids of the resources."""


class Trail:
    """Writes to the audit log of an installation."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def hash(self, tenant_id: str, user_id: str) -> str:
        """The hash of a user; empty for `NOBODY`."""
        return user_hash(self.key, tenant_id, user_id) if user_id else ""

    def actor(self, principal: Principal) -> str:
        """The recorded name of a credential: its own name, unless that may identify a user.

        For a restricted credential, the hash of the token's subject, or only the id of the key.
        """
        if principal.departments is None:
            return principal.subject
        return self._without_name(principal.tenant_id, principal.subject)

    def caller(self, principal: Principal) -> str:
        """A keyed hash that distinguishes a tenant's credentials and reveals nothing else."""
        return credential_hash(self.key, principal.tenant_id, principal.subject)

    def actors(self, tenant_id: str, name: str) -> list[str]:
        """The possible recorded names of a credential, to search for its entries."""
        return list(dict.fromkeys((name, self._without_name(tenant_id, name))))

    def _without_name(self, tenant_id: str, subject: str) -> str:
        kind, _, rest = subject.partition(":")
        if kind == "jwt":
            return f"jwt:{self.hash(tenant_id, rest)}"
        if kind == "key":
            return f"key:{rest.partition(':')[0]}"
        return subject

    async def note_call(self, connection: Connection, touched: Touched) -> None:
        """Record what the current call does; background work has no call and records nothing.

        It is part of the transaction of `connection`, if there is one: a rolled-back change leaves
        no entry.
        """
        call = maybe_current_call()
        if call is not None:
            principal = call.principal
            actor = self.actor(principal)
            await self.note(
                connection, principal.tenant_id, actor=actor, method=call.method, touched=touched
            )

    async def note_replay(self, connection: Connection, touched: Touched) -> None:
        """Record the reply to a repeated call, if it is a read of other users' data.

        It changes nothing, but returns what others may have changed since the first call.
        """
        call = maybe_current_call()
        if call is None or call.principal.unbound:
            return
        others = {user: ids for user, ids in touched.items() if user != call.principal.user_id}
        if others:
            await self.note_call(connection, others)

    async def note(
        self, connection: Connection, tenant_id: str, *, actor: str, method: str, touched: Touched
    ) -> None:
        """Record what `actor` does by an RPC, or by a job of the kind `method`."""
        await audit_log.append(
            connection,
            tenant_id,
            actor=actor,
            method=method,
            touched=[
                (self.hash(tenant_id, user_id), resources(ids, besides=user_id))
                for user_id, ids in (touched or {NOBODY: ()}).items()
            ],
        )


def resources(ids: Iterable[str], *, besides: str = NOBODY) -> list[UUID]:
    """The UUIDs among `ids`, each once; never the user's own id."""
    found: dict[UUID, None] = {}
    for text in ids:
        made = parse_uuid(text)
        if made is not None and text.lower() != besides.lower():
            found[made] = None
        if len(found) == MAX_RESOURCES:
            break
    return list(found)
