"""Looks up users' departments: the only database access of the access rules.

A user's department is in the profile. Callers without a restriction never need this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping

from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.pool import Connection, Reads
from hitherto_shared.text.normalise import unusable_characters
from hitherto_shared.validation import MAX_ID

_DEPARTMENTS = """
SELECT user_id, department
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = ANY(%(user_ids)s::text[])
"""


async def departments_of(
    connection: Connection, tenant_id: str, user_ids: Collection[str]
) -> Mapping[str, str]:
    """The departments of those users of a tenant who have a profile."""
    # An invalid user id has no department; Postgres would refuse some of them.
    names = [name for name in user_ids if len(name) <= MAX_ID and unusable_characters(name) is None]
    values = {"tenant_id": tenant_id, "user_ids": names}
    return dict(await connection.fetch_rows(_DEPARTMENTS, values))


class Departments:
    """Compares callers' departments with those of the users they name."""

    def __init__(self, database: Reads) -> None:
        self._database = database

    async def check(
        self, principal: Principal, user_ids: Collection[str], *, timeout: float
    ) -> None:
        """Refuse a caller if one of `user_ids` is in none of its departments.

        Nothing is cached: a user who was moved is inaccessible from the next call on.

        `user_ids` are in normal form. The call fails if the database does not answer within
        `timeout`.

        Raises:
            NotPermitted: A user is inaccessible, or unknown.
        """

        def look_up(connection: Connection) -> Awaitable[Mapping[str, str]]:
            return departments_of(connection, principal.tenant_id, user_ids)

        found = await self._database.run(look_up, timeout=timeout, repeatable=True)
        for user_id in user_ids:
            principal.check_reaches(user_id, found.get(user_id, ""))
