"""Who belongs to which department: the one look into the database that access rules need.

A person's department stands in the profile. Callers that are bound to none never come here.
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
    # What no user can be called is in no department; Postgres would refuse some of it.
    names = [name for name in user_ids if len(name) <= MAX_ID and unusable_characters(name) is None]
    cursor = await connection.execute(_DEPARTMENTS, {"tenant_id": tenant_id, "user_ids": names})
    return {row[0]: row[1] for row in await cursor.fetchall()}


class Departments:
    """Holds callers against the departments of those they name."""

    def __init__(self, database: Reads) -> None:
        self._database = database

    async def check(
        self, principal: Principal, user_ids: Collection[str], *, timeout: float
    ) -> None:
        """Refuse a caller one of whose `user_ids` is in none of its departments.

        Nothing is remembered: somebody who was moved is out of reach with the next call.

        Args:
            principal: The caller.
            user_ids: Whom the request names, in normal form.
            timeout: Seconds until the caller is told that the database does not answer.

        Raises:
            NotPermitted: Somebody is out of reach, or is not known at all.
        """

        def look_up(connection: Connection) -> Awaitable[Mapping[str, str]]:
            return departments_of(connection, principal.tenant_id, user_ids)

        found = await self._database.run(look_up, timeout=timeout, repeatable=True)
        for user_id in user_ids:
            principal.check_reaches(user_id, found.get(user_id, ""))
