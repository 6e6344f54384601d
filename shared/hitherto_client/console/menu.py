"""The pages that a visitor may go to, and which of them is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hitherto_client.console.rights import Rights

_OF_A_PERSON = (
    ("/memories", "Memories"),
    ("/review", "To check"),
    ("/changes", "What changed"),
    ("/timeline", "Timeline"),
    ("/conversations", "Conversations"),
    ("/documents", "Documents"),
    ("/profile", "Profile"),
    ("/told", "What the assistant is told"),
    ("/settings", "Settings"),
    ("/data", "Export and erase"),
)
_ELSEWHERE = {"/conversation": "/conversations"}
"""Pages that do not lie below the entry of the menu that they belong to."""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page that one may go to."""

    text: str
    address: str
    is_here: bool
    """It is open, or a page below it."""


@dataclass(frozen=True, slots=True)
class MenuGroup:
    """Pages about one person, or about everybody."""

    title: str
    entries: tuple[MenuEntry, ...]


def menu_for(rights: Rights, user: str, here: str, link: Callable[..., str]) -> list[MenuGroup]:
    """The menu of a page.

    `user` is the person whose data the page shows, `here` the path of the page, and `link` makes
    the address of a page about that person.
    """
    here = _ELSEWHERE.get(here, here)

    def entry(path: str, text: str, **fields: str) -> MenuEntry:
        is_here = here == path or here.startswith(f"{path}/")
        return MenuEntry(text, link(path, **fields), is_here)

    groups = []
    if user:
        groups.append(MenuGroup(user, tuple(entry(*page) for page in _OF_A_PERSON)))
    title = "Work" if rights.person else "Everybody"
    shared = tuple(entry(*page, user="") for page in _shared(rights))
    return [*groups, MenuGroup(title, shared)] if shared else groups


def _shared(rights: Rights) -> list[tuple[str, str]]:
    """The pages that are about nobody in particular."""
    pages = []
    if not rights.person:
        pages.append(("/people", "People"))
    if rights.everybody or rights.person:
        pages.append(("/jobs", "Jobs"))
    if rights.maintenance and rights.everybody:
        pages += [("/usage", "Usage"), ("/schedules", "Schedules")]
    if rights.admin and rights.everybody:
        pages.append(("/audit", "Audit log"))
    return pages
