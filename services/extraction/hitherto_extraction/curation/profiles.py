"""Writes a profile that was changed by hand, with its version and history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hitherto_extraction.curation.profile_edit import Path, ProfileTooLarge, edit_profile
from hitherto_extraction.storage import ledger, profiles, users
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import Conflict, invalid
from hitherto_shared.models import Profile, Scope


async def update_profile(
    connection: Connection,
    scope: Scope,
    values: Mapping[str, Any],
    paths: Sequence[Path],
    *,
    version: int,
    actor: str,
    permit: Callable[[Profile], None] | None = None,
) -> Profile:
    """Change a profile, or create one.

    Args:
        connection: In the transaction of the change.
        scope: The user.
        values: New values by field.
        paths: What to change; a path without a value is removed.
        version: The version the change was based on, or 0 for any.
        actor: The actor for the history.
        permit: Raises if the caller may not change the present profile; None if the caller's rights
            do not depend on its contents.

    Raises:
        NotPermitted: Raised by `permit`.
        WrongState: The user was erased.
        Conflict: The profile has another version by now.
        InvalidRequest: The profile would exceed its limit.
    """
    await users.enter_user(connection, scope)
    await users.lock_user(connection, scope)
    current, said_at = await profiles.read_profile(connection, scope)
    if permit is not None:
        permit(current)
    if version and version != current.version:
        raise Conflict(
            "the profile has changed since that version: read it again and reapply the change",
            reason="VERSION_MISMATCH",
            metadata={"expected": str(version), "actual": str(current.version)},
        )
    try:
        edit = edit_profile(current, said_at, values, paths, await users.database_now(connection))
    except ProfileTooLarge as error:
        raise invalid("profile", "would have more than 65536 bytes with this change") from error
    if not edit.changed:
        return current
    sealed = await profiles.write_profile(
        connection, scope, edit.profile, edit.said_at, actor=actor, job_id=None
    )
    event = profiles.change_event(
        "updated" if current.version else "created",
        edit.profile,
        before=current if current.version else None,
        sealed=sealed,
        changed=edit.changed,
    )
    await ledger.record(connection, scope, None, [event], actor=actor)
    changed, _ = await profiles.read_profile(connection, scope)
    return changed
