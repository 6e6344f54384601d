"""Who did what to whose data, as the audit log tells it: with hashes for people and ids for things.

The log outlives everybody in it, so that nothing may enter it that a person wrote or is known by.
Users become keyed hashes, also where a person's own id is part of the name of a credential. Of the
ids of resources only UUIDs are taken: callers choose those of conversations and sessions as they
like, and may have put a name there.
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
"""Stands for the user where something is about none, or about everybody."""

MAX_RESOURCES = 1_000
"""Ids that one entry holds at most."""

Touched = Mapping[str, Iterable[str]]
"""The users something was about, `NOBODY` for none, with the ids of the resources touched."""


class Trail:
    """Writes to the audit log of an installation.

    Attributes:
        key: The installation's hash key.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key

    def hash(self, tenant_id: str, user_id: str) -> str:
        """What stands for a user; empty for `NOBODY`."""
        return user_hash(self.key, tenant_id, user_id) if user_id else ""

    def actor(self, principal: Principal) -> str:
        """What stands for a credential: its name, unless a person may be known by it.

        Of a bound credential, the hash of the token's subject, or the id of the key alone.
        """
        if principal.departments is None:
            return principal.subject
        return self._without_name(principal.tenant_id, principal.subject)

    def caller(self, principal: Principal) -> str:
        """A keyed hash that tells one credential of a tenant from another, and nothing else."""
        return credential_hash(self.key, principal.tenant_id, principal.subject)

    def actors(self, tenant_id: str, name: str) -> list[str]:
        """What may stand for the credential of this name, to look for its entries."""
        return list(dict.fromkeys((name, self._without_name(tenant_id, name))))

    def _without_name(self, tenant_id: str, subject: str) -> str:
        kind, _, rest = subject.partition(":")
        if kind == "jwt":
            return f"jwt:{self.hash(tenant_id, rest)}"
        if kind == "key":
            return f"key:{rest.partition(':')[0]}"
        return subject

    async def note_call(self, connection: Connection, touched: Touched) -> None:
        """Write down what the call at hand does; background work has none and writes nothing.

        It is written in the transaction of `connection`, if there is one: what is rolled back was
        never done.
        """
        call = maybe_current_call()
        if call is not None:
            principal = call.principal
            await self._append(
                connection, principal.tenant_id, self.actor(principal), call.method, touched
            )

    async def note_replay(self, connection: Connection, touched: Touched) -> None:
        """Write down that a repeated call is told how things stand, if that is a read of others.

        It changes nothing, and tells what others may have changed since the first call.
        """
        call = maybe_current_call()
        if call is None or call.principal.unbound:
            return
        others = {user: ids for user, ids in touched.items() if user != call.principal.user_id}
        if others:
            await self.note_call(connection, others)

    async def note_job(
        self, connection: Connection, tenant_id: str, *, actor: str, kind: str, touched: Touched
    ) -> None:
        """Write down what a job of `kind` does, run by `actor`."""
        await self._append(connection, tenant_id, actor, kind, touched)

    async def _append(
        self, connection: Connection, tenant_id: str, actor: str, method: str, touched: Touched
    ) -> None:
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
    """The UUIDs among `ids`, each once; never one that is the user's own id."""
    found: dict[UUID, None] = {}
    for text in ids:
        made = parse_uuid(text)
        if made is not None and text.lower() != besides.lower():
            found[made] = None
        if len(found) == MAX_RESOURCES:
            break
    return list(found)
