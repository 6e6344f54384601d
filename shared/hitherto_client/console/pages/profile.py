"""Profiles: those that one may see, what is known about a person as such, and its editor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from hitherto_client.console.failures import Failure
from hitherto_client.console.fields import FieldRefused, Fields
from hitherto_client.console.rendering import plain
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look, or_again
from hitherto_client.results import Profile
from hitherto_client.wire import put

_GROUPS = ("facts", "preferences", "metadata")
_TEXTS = ("summary", "department", "access_level")
_LISTS = ("current_projects", "frequent_intents")


@dataclass(frozen=True, slots=True)
class ProfileLeaf:
    """One value in the free parts of a profile, as a field of the editor."""

    path: tuple[str, ...]
    """Such as `facts`, `personal`, `location`."""
    value: Any

    @property
    def field(self) -> str:
        """The name of its field."""
        return json.dumps(self.path, ensure_ascii=False)

    @property
    def has_lines(self) -> bool:
        """Whether its field must hold line breaks."""
        return self.is_list or "\n" in self.text

    @property
    def is_top(self) -> bool:
        """Whether it stands in no group of its own."""
        return len(self.path) == 2

    @property
    def is_list(self) -> bool:
        """Whether it is edited as lines."""
        return isinstance(self.value, list) and all(isinstance(one, str) for one in self.value)

    @property
    def text(self) -> str:
        """What the field holds."""
        if self.is_list:
            return "\n".join(self.value)
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False)

    @property
    def is_fixed(self) -> bool:
        """Whether its name cannot be part of a path, so that only programs can change it."""
        return any("." in part or "`" in part for part in self.path)

    def read(self, given: str) -> Any:
        """The value that the field says now, of the kind that it was."""
        if self.is_list:
            return [line.strip() for line in given.splitlines() if line.strip()]
        if isinstance(self.value, str):
            return given.strip()
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            raise FieldRefused(
                f"{'.'.join(self.path)} should be JSON, such as {plain(self.value)}"
            ) from None


def leaves(profile: Profile | None) -> list[ProfileLeaf]:
    """Every value in the free parts of a profile."""
    if profile is None:
        return []
    return [leaf for group in _GROUPS for leaf in _leaves((group,), getattr(profile, group))]


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[ProfileLeaf]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _leaves((*path, key), value[key])
    else:
        yield ProfileLeaf(path, value)


async def _first(visit: Visit) -> Response:
    return visit.go("/memories" if visit.user else "/people")


async def _people(visit: Visit) -> Response:
    department = visit.address.text("department")
    listed = visit.client.profiles(
        department=department, include_without_profile=True, page_size=PAGE_SIZE
    )
    found = await listed.page(visit.address.text("page"))
    return visit.page("people.html", found=found, department=department)


async def _profile(visit: Visit) -> Response:
    profile = await visit.client.get_profile(visit.user)
    history = await visit.client.profile_history(visit.user, page_size=PAGE_SIZE).page(
        visit.address.text("page")
    )
    # Only lists say why there is nothing to show.
    found = None if profile else await visit.client.memories(visit.user, page_size=1).page()
    return visit.page(
        "profile.html", profile=profile, leaves=leaves(profile), history=history, found=found
    )


async def _edit(visit: Visit, problem: Failure | None = None) -> Response:
    profile = await visit.client.get_profile(visit.user)
    shown = {name: getattr(profile, name, "") for name in _TEXTS}
    shown |= {name: "\n".join(getattr(profile, name, ())) for name in _LISTS}
    shown |= {leaf.field: leaf.text for leaf in leaves(profile)}
    return visit.page(
        "profile_edit.html",
        problem,
        profile=profile,
        leaves=leaves(profile),
        shown=shown,
        holds=visit.form.over(shown),
    )


async def _save(visit: Visit) -> Response:
    profile = await visit.client.get_profile(visit.user)
    changes, cleared = _changes(profile, visit.form)
    if not changes and not cleared:
        return visit.go("/profile", "Nothing was changed.")
    version = visit.form.whole("version", least=0, most=2**31 - 1) or 0
    await visit.client.update_profile(visit.user, **changes, clear=cleared, version=version)
    return visit.go("/profile", "Saved.")


def _changes(profile: Profile | None, form: Fields) -> tuple[dict[str, Any], list[str]]:
    """What was edited in the form, and the paths that it empties."""
    changes: dict[str, Any] = {}
    cleared: list[str] = []
    for name in filter(form.edited, _TEXTS):
        if form.text(name):
            changes[name] = form.text(name)
        else:
            cleared.append(name)
    for name in filter(form.edited, _LISTS):
        changes[name] = form.lines(name)
    for leaf in leaves(profile):
        if leaf.is_fixed or not form.edited(leaf.field):
            continue
        given = form.text(leaf.field)
        if not given:
            cleared.append(".".join(leaf.path))
        elif (value := leaf.read(given)) != leaf.value:
            put(changes, leaf.path, value)
    _add_new(changes, form)
    return changes, cleared


def _add_new(changes: dict[str, Any], form: Fields) -> None:
    """The fact in the editor's last row."""
    group, key, value = form.text("new_group"), form.text("new_key"), form.text("new_value")
    if not key and not value:
        return
    if not key or not value:
        raise FieldRefused("A new fact needs a name and a value.")
    if "." in key or "." in group:
        raise FieldRefused("The name of a fact cannot contain a dot.")
    put(changes, ("facts", group or "personal", key), value)


ROUTES = (
    look("/", _first, about_user=False),
    look("/people", _people, about_user=False),
    look("/profile", _profile),
    look("/profile/edit", _edit),
    change("/profile/edit", or_again(_save, _edit)),
)
