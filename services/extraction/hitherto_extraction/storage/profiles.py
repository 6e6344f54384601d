"""Profiles and their versions.

For a user with encryption on, learnt values are sealed, but not department and access level: they
decide who may read the profile. Versions are sealed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import ledger
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.sealed_rows import opened, sealing_key, stored
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import PROFILE, PROFILE_VERSION
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.models import Profile

LEARNT = tuple(PROFILE.columns)
_CONTENT = (
    *("department", "summary", "current_projects", "preferences", "frequent_intents"),
    *("access_level", "facts", "metadata"),
)

_READ = """
SELECT department, summary, current_projects, preferences, frequent_intents, access_level, facts,
       metadata, version, last_extracted_at, updated_at, said_at, sealed, sources
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_WRITE = """
INSERT INTO profiles (tenant_id, user_id, department, summary, current_projects, preferences,
    frequent_intents, access_level, facts, metadata, said_at, sources, sealed, version, updated_at,
    last_extracted_at)
VALUES (%(tenant_id)s, %(user_id)s, %(department)s, %(summary)s, %(current_projects)s,
    %(preferences)s, %(frequent_intents)s, %(access_level)s, %(facts)s, %(metadata)s, %(said_at)s,
    %(sources)s, %(sealed)s, %(version)s, clock_timestamp(),
    CASE WHEN %(extracted)s THEN now() END)
ON CONFLICT (tenant_id, user_id) DO UPDATE
SET department = EXCLUDED.department, summary = EXCLUDED.summary,
    current_projects = EXCLUDED.current_projects, preferences = EXCLUDED.preferences,
    frequent_intents = EXCLUDED.frequent_intents, access_level = EXCLUDED.access_level,
    facts = EXCLUDED.facts, metadata = EXCLUDED.metadata, said_at = EXCLUDED.said_at,
    sources = EXCLUDED.sources, sealed = EXCLUDED.sealed, version = EXCLUDED.version,
    updated_at = CASE profiles.version
        WHEN EXCLUDED.version THEN profiles.updated_at ELSE EXCLUDED.updated_at
    END,
    last_extracted_at = coalesce(EXCLUDED.last_extracted_at, profiles.last_extracted_at)
"""

_KEEP_VERSION = """
INSERT INTO profile_versions (
    tenant_id, user_id, version, profile, sealed, actor, job_id, recorded_at)
SELECT tenant_id, user_id, %(version)s, %(profile)s, %(sealed)s, %(actor)s, %(job_id)s, updated_at
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_LOOKED = """
UPDATE profiles SET last_extracted_at = now()
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_ROLLED_BACK = """
SELECT version
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND subject = 'profile'
  AND action = 'rolled_back'
"""

_VERSIONS = """
SELECT version, job_id, recorded_at, profile, sealed
FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
ORDER BY version
"""


async def read_profile(user: UserRows) -> tuple[Profile, dict[str, str]]:
    """The profile (version 0 if there is none) and when each of its single values was said."""
    row = await user.fetch_row(_READ)
    if row is None:
        return Profile(user.scope.user_id), {}
    profile, said_at, sealed = Profile(user.scope.user_id, *row[:11]), row[11], row[12]
    profile = replace(profile, sources=row[13])
    if sealed is not None:
        learnt = opened(user.scope, PROFILE, sealed, profile.version)
        said_at = learnt.pop("said_at")
        profile = replace(profile, **learnt)
    return profile, dict(said_at)


async def write_profile(
    user: UserRows,
    before: Profile,
    after: Profile,
    said_at: Mapping[str, str],
    *,
    actor: str,
    job_id: UUID | None,
    changed: Sequence[str] = (),
    rolled_back: str = "",
) -> None:
    """Store a new version of the profile, and its history entry. The caller holds the user's row.

    `said_at` tells when each single value was said, `changed` names the paths of what changed: for
    a sealed profile, the history gets only their fields, as keys are the user's words too. `job_id`
    is None for a change by hand; `rolled_back` says why a source was rolled back, if that is it.

    Raises:
        KeyNeeded: The user has encryption on, and the key for it is not at hand.
    """
    key = await _store(user, after, said_at, extracted=job_id is not None)
    version = {"version": after.version, "profile": profile_content(after)}
    await user.later(
        _KEEP_VERSION,
        version=after.version,
        **stored(key, PROFILE_VERSION, version),
        actor=actor,
        job_id=job_id,
    )
    if key is not None:
        changed = list(dict.fromkeys(path.partition(".")[0] for path in changed))
    event = ledger.ChangeEvent(
        "rolled_back" if rolled_back else "updated" if before.version else "created",
        after.version,
        rolled_back or ", ".join(changed)[:500],
        subject="profile",
    )
    await ledger.record(user, job_id, [event], actor=actor)


async def write_sources(
    user: UserRows,
    before: Profile,
    after: Profile,
    said_before: Mapping[str, str],
    said_at: Mapping[str, str],
) -> None:
    """Store what values rest on, and when they were said or ended, if that has moved.

    No value has changed, and there is no new version.

    Raises:
        KeyNeeded: The user has encryption on, and the key for it is not at hand.
    """
    if before.version and (after.sources != before.sources or said_at != said_before):
        await _store(user, replace(after, version=before.version), said_at, extracted=False)


async def _store(
    user: UserRows, profile: Profile, said_at: Mapping[str, str], *, extracted: bool
) -> UserKey | None:
    """Write the row; returns the key with which it is sealed."""
    key = await sealing_key(user)
    sources = dict(profile.sources)
    if key is not None:
        # A quote has to go with its message, without the key.
        sources = {path: {**source, "quote": ""} for path, source in sources.items()}
    row = {
        **profile_content(profile),
        "said_at": dict(said_at),
        "sources": sources,
        "version": profile.version,
    }
    await user.later(
        _WRITE,
        department=profile.department,
        access_level=profile.access_level,
        extracted=extracted,
        **stored(key, PROFILE, row),
        version=profile.version,
    )
    return key


async def versions(user: UserRows) -> list[StoredVersion]:
    """Every version of the profile, the first one first."""
    return [
        StoredVersion(
            version,
            job_id,
            at,
            content
            if sealed is None
            else opened(user.scope, PROFILE_VERSION, sealed, version)["profile"],
        )
        for version, job_id, at, content, sealed in await user.fetch_rows(_VERSIONS)
    ]


async def rolled_back_versions(user: UserRows) -> set[int]:
    """The versions of the profile that earlier roll-backs made."""
    return set(await user.fetch_values(_ROLLED_BACK))


async def mark_extracted(user: UserRows) -> None:
    """Record that the profile was processed and is unchanged."""
    await user.later(_LOOKED)


def profile_content(profile: Profile) -> dict[str, Any]:
    """A profile's content as JSON, as versions store it."""
    columns = fields_of(profile)
    return {name: columns[name] for name in _CONTENT}
