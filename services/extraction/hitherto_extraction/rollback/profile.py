"""Rebuilds the profile without some of the statements about it, and writes it.

Statements of sources are merged as they were learnt, without those that are rolled back, and
changes by hand are applied again (`replay`, a pure function).
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.free_json import ABSENT, Path, put_at, value_at
from hitherto_extraction.pipeline.profile import LISTS, MAX_BYTES, said_path, with_values
from hitherto_extraction.pipeline.profile_changes import ProfileState, ValueChange
from hitherto_extraction.storage import profiles, statements
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import NewStatement, StoredStatement
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Profile


def replay(
    current: Profile,
    versions: Sequence[StoredVersion],
    statements: Sequence[StoredStatement],
    *,
    skipped: Collection[int],
    said_at: Mapping[str, str],
) -> tuple[Profile, dict[str, str]]:
    """The profile from the remaining statements, and when each of its values was said.

    Version and age of the `current` one are kept. `versions` and `skipped` are as for a memory
    (`rollback.replay`), and `said_at` tells when each value of the current profile was said, for
    versions of jobs without recorded statements.
    """
    explained = {each.version for each in statements if each.made_version}
    said = defaultdict[int, list[StoredStatement]](list)
    for each in statements:
        said[each.version].append(each)
    profile = Profile(current.user_id)
    marks: dict[str, str] = {}
    before: Mapping[str, Any] = {}
    for version in [StoredVersion(0, None, datetime.min.replace(tzinfo=UTC), {}), *versions]:
        if version.version not in explained and version.version not in skipped:
            learnt = said_at if version.job_id is not None else {}
            profile, marks = _changed(profile, marks, before, version, learnt)
        for each in said[version.version]:
            if each.taken:
                continue
            state = ProfileState(profile, marks)
            for change in each.said.get("changes", ()):
                state.apply(ValueChange.of(change))
            profile, marks = state.profile, state.said_at
        before = version.fields
    return replace(
        profile,
        version=current.version,
        last_extracted_at=current.last_extracted_at,
        updated_at=current.updated_at,
    ), marks


def differing(before: Mapping[str, Any], after: Mapping[str, Any], path: Path = ()) -> list[Path]:
    """Paths of the single values and lists that differ between two contents."""
    found: list[Path] = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old == new:
            continue
        if _object(old) and _object(new) and (old is not ABSENT or new is not ABSENT):
            found += differing(
                {} if old is ABSENT else old, {} if new is ABSENT else new, (*path, key)
            )
        else:
            found.append((*path, key))
    return found


def _object(value: Any) -> bool:
    return value is ABSENT or isinstance(value, Mapping)


def _changed(
    profile: Profile,
    marks: Mapping[str, str],
    before: Mapping[str, Any],
    version: StoredVersion,
    learnt: Mapping[str, str],
) -> tuple[Profile, dict[str, str]]:
    """The profile after the changes by hand between two versions."""
    held: dict[str, Any] = {
        name: copy.deepcopy(getattr(profile, name)) for name in before or version.fields
    }
    held |= {name: list(held[name]) for name in LISTS if name in held}
    dated = dict(marks)
    for path in differing(before, version.fields):
        old, new = value_at(before, path), value_at(version.fields, path)
        if isinstance(new, list) and isinstance(old, list):
            now = value_at(held, path)
            known = now if isinstance(now, list) else []
            kept = [each for each in known if each in new or each not in old]
            new = [*kept, *(each for each in new if each not in old and each not in kept)]
        put_at(held, path, ABSENT if len(path) > 1 and new in ([], {}) else new, prune=True)
        name = said_path(*path)
        dated = {key: value for key, value in dated.items() if not key.startswith(f"{name}.")}
        dated[name] = learnt.get(name, version.at.astimezone(UTC).isoformat())
    _fit(held, dated)
    return with_values(profile, held), dated


def _fit(held: dict[str, Any], marks: Mapping[str, str]) -> None:
    """Drop the values said longest ago while the profile exceeds its limit."""
    oldest = sorted(
        (path for path in differing({}, held) if len(path) > 1),
        key=lambda path: marks.get(said_path(*path), ""),
    )
    while oldest and len(json.dumps(held, ensure_ascii=False).encode()) > MAX_BYTES:
        put_at(held, oldest.pop(0), ABSENT, prune=True)


async def rebuild_profile(
    user: UserRows, job_ids: Sequence[UUID], *, actor: str, reason: str
) -> int:
    """Write the profile without jobs, if that changes it; returns the number of changed values.

    Statements of the jobs are marked already.
    """
    said = await statements.of_profile(user)
    versions = await profiles.versions(user)
    explained = {each.version for each in said if each.made_version}
    unexplained = [
        each for each in versions if each.version not in explained and each.job_id in job_ids
    ]
    if not unexplained and not any(each.taken and each.job_id in job_ids for each in said):
        return 0
    await statements.record(
        user,
        [
            NewStatement(
                "taken", each.version, True, "user", each.at,
                job_id=each.job_id, taken=True, subject="profile",
            )
            for each in unexplained
        ])  # fmt: skip
    current, said_at = await profiles.read_profile(user)
    rebuilt, marks = replay(
        current,
        versions,
        said,
        skipped={each.version for each in unexplained} | await profiles.rolled_back_versions(user),
        said_at=said_at,
    )
    paths = differing(profiles.profile_content(current), profiles.profile_content(rebuilt))
    sources = {
        path: _quoted_as_now(source, current.sources.get(path))
        for path, source in rebuilt.sources.items()
    }
    if not paths:
        rested = replace(current, sources=sources)
        await profiles.write_sources(user, current, rested, said_at, marks)
        return 0
    after = replace(rebuilt, version=current.version + 1, sources=sources)
    await profiles.write_profile(
        user, current, after, marks, actor=actor, job_id=None, rolled_back=reason
    )
    return len(paths)


def _quoted_as_now(
    source: Mapping[str, Any], present: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """A rebuilt source with the quote that the profile holds: statements hold none."""
    named = ("conversation_id", "message_id")
    if present is None or any(source[name] != present[name] for name in named):
        return source
    return {**source, "quote": present["quote"]}
