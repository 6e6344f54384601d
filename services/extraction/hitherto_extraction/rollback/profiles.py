"""Rebuilds the profile from the remaining statements about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.rollback.profile import ProfileVersion, differing, replay
from hitherto_extraction.storage import ledger, profiles, statements
from hitherto_extraction.storage import rollback as storage
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope


async def rebuild_profile(
    connection: Connection,
    scope: Scope,
    job_ids: Sequence[UUID],
    *,
    actor: str,
    reason: str,
) -> int:
    """Write the profile without jobs, if that changes it; returns the number of changed values.

    Statements of the jobs are marked already.
    """
    said = await statements.of_profile(connection, scope)
    versions = [ProfileVersion(*row) for row in await storage.profile_versions(connection, scope)]
    explained = {each.version for each in said if each.made_version}
    unexplained = [
        each for each in versions if each.version not in explained and each.job_id in job_ids
    ]
    if not unexplained and not any(each.taken and each.job_id in job_ids for each in said):
        return 0
    await statements.record(
        connection,
        scope,
        [
            NewStatement(
                "profile", "taken", each.version, True, "user", each.at,
                job_id=each.job_id, taken=True,
            )
            for each in unexplained
        ],
    )  # fmt: skip
    current, said_at = await profiles.read_profile(connection, scope)
    rebuilt, marks = replay(
        current,
        versions,
        said,
        skipped={each.version for each in unexplained}
        | await storage.profile_rolled_back(connection, scope),
        said_at=said_at,
    )
    paths = differing(profiles.profile_content(current), profiles.profile_content(rebuilt))
    if not paths:
        return 0
    after = replace(rebuilt, version=current.version + 1)
    sealed = await profiles.write_profile(connection, scope, after, marks, actor=actor, job_id=None)
    event = profiles.change_event(
        "rolled_back", after, before=current, sealed=sealed, reason=reason
    )
    await ledger.record(connection, scope, None, [event], actor=actor)
    return len(paths)
