"""Changes a profile by hand, with its version and history.

Unlike learning, a change by hand replaces whole values and removes them. Each changed path is
marked with the time, so that only later statements of the user override it (E2).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.pipeline.free_json import ABSENT, Path, new_value_at, put_at, value_at
from hitherto_extraction.pipeline.profile import MAX_BYTES, ProfileChange, said_path, with_values
from hitherto_extraction.pipeline.versions import check_version
from hitherto_extraction.storage import profiles, users
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import invalid
from hitherto_shared.models import Profile

_EMPTY: Mapping[str, Any] = profiles.profile_content(Profile(""))
FIELDS = tuple(_EMPTY)
RESERVED = ("department", "access_level")
"""Fields that only a credential that manages profiles may change; statements never do."""


async def update_profile(
    user: UserRows,
    values: Mapping[str, Any],
    paths: Sequence[Path],
    *,
    version: int,
    actor: str,
    permit: Callable[[Profile], None] | None = None,
) -> Profile:
    """Change a profile, or create one.

    A path without a value is removed. `version` is the one that the change was based on, or 0 for
    any.

    Raises:
        NotPermitted: Raised by `permit`, which checks the present profile; None: the caller's
            rights do not depend on its contents.
        WrongState: The user was erased.
        Conflict: The profile has another version by now.
        InvalidRequest: The profile would exceed its limit.
    """
    await users.enter_alone(user)
    current, said_at = await profiles.read_profile(user)
    if permit is not None:
        permit(current)
    check_version("profile", current.version, version)
    edit = edit_profile(current, said_at, values, paths, await users.database_now(user.connection))
    if not edit.changed:
        return current
    await profiles.write_profile(
        user, current, edit.profile, edit.said_at, actor=actor, job_id=None, changed=edit.changed
    )
    changed, _ = await profiles.read_profile(user)
    return changed


def edit_profile(
    current: Profile,
    said_at: Mapping[str, str],
    values: Mapping[str, Any],
    paths: Sequence[Path],
    at: datetime,
) -> ProfileChange:
    """Set `values` at `paths`.

    `current` has version 0 if there is none. `paths` name a field, or a field of free-form JSON and
    keys within it; one without a value in `values`, or with null, is removed.

    Raises:
        InvalidRequest: It would exceed the limit.
    """
    held: dict[str, Any] = {name: copy.deepcopy(getattr(current, name)) for name in FIELDS}
    marks = dict(said_at)
    changed: list[str] = []
    for path in paths:
        new, old = new_value_at(values, path), value_at(held, path)
        if _plain(new) == _plain(old):
            continue
        if len(path) == 1:
            held[path[0]] = _EMPTY[path[0]] if new is ABSENT else new
            if _plain(held[path[0]]) == _plain(old):
                continue
        else:
            put_at(held, path, new)
        name = said_path(*path)
        changed.append(name)
        # The change by hand also overrides what was said about anything below it.
        marks = {key: value for key, value in marks.items() if not key.startswith(f"{name}.")}
        marks[name] = at.astimezone(UTC).isoformat()
    if len(json.dumps(held, ensure_ascii=False, default=list).encode()) > MAX_BYTES:
        raise invalid("profile", f"would have more than {MAX_BYTES} bytes with this change")
    after = replace(with_values(current, held), version=current.version + bool(changed))
    return ProfileChange(after, marks, changed)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
