"""Finds the people, projects and places that a document names, and their known entities.

Names come from headers and fields only, so that nothing is guessed. The same address with another
spelling is the same person. People with one name are one entity, as for memories.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_extraction.storage.document_mentions import EntityChange
from hitherto_shared.text.normalise import fold

MAX_ENTITIES = 500
"""Maximum per document; the first ones count."""
_MAX_NAME = 256
_MAX_ALIASES = 32

_ONE_PERSON = ("from", "assignee", "reporter", "organizer")
_MANY_PEOPLE = ("to", "cc", "attendees")
_OTHERS = {"project": "project", "location": "place"}
_MAIL = frozenset(("from", "to", "cc"))
"""In an email these are people; elsewhere "from" may be a time of day, and requires an address."""
_MAIL_SOURCES = frozenset(("gmail", "outlook"))
_NAME_KEYS = ("name", "displayName", "display_name", "title")
_ADDRESS_KEYS = ("email", "emailAddress", "email_address", "address")

_ADDRESS = re.compile(r"(?<![^\s<>@,;\"])[^\s<>@,;\"]++@[^\s<>@,;\"]+")
# Commas and semicolons separate people, except within quotes and angle brackets.
_PERSON = re.compile(r'(?:"[^"]*+"|<[^<>]*+>|[^,;"<]|["<])+')


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a document; a person's may come with an address or be only that."""

    type: str
    name: str
    email: str = ""


def mentioned(
    source_type: str, content_type: str, author: str, metadata: Mapping[str, Any]
) -> list[Mention]:
    """The names in the author and the known keys of the metadata, without duplicates."""
    mail = content_type.lower() == "email" or source_type.lower() in _MAIL_SOURCES
    found: list[Mention] = []
    for key in (*_ONE_PERSON, *_MANY_PEOPLE):
        people = _people(metadata.get(key), many=key in _MANY_PEOPLE)
        found += (one for one in people if mail or key not in _MAIL or one.email)
    found += _people(author, many=False)
    for key, kind in _OTHERS.items():
        found += (Mention(kind, name) for name in _names(metadata.get(key)))
    return list(dict.fromkeys(found))[:MAX_ENTITIES]


def settle(
    mentions: Sequence[Mention], known: Iterable[EntityChange], new_id: Callable[[], UUID]
) -> list[EntityChange]:
    """The entities of a document's mentions, new and known, in their new state.

    `known` must hold every entity that has one of the names or addresses.
    """
    people = _Register(known)
    settled: dict[UUID, EntityChange] = {}
    # A mention with both determines what a bare name or a bare address belongs to.
    for mention in sorted(mentions, key=lambda one: not (one.name and one.email)):
        entity = people.find(mention)
        if entity is None:
            name = mention.name or mention.email
            entity = EntityChange(
                new_id(), mention.type, name, fold(name), [], mention.email, [], new=True
            )
        people.note(entity, mention)
        entity.names += [
            name for name in (mention.name, mention.email) if name and name not in entity.names
        ]
        settled[entity.entity_id] = entity
    for entity in people.robbed.values():
        settled.setdefault(entity.entity_id, entity)
    return list(settled.values())


class _Register:
    """Entities by everything that identifies them."""

    def __init__(self, known: Iterable[EntityChange]) -> None:
        self._by_name: dict[tuple[str, str], EntityChange] = {}
        self._by_alias: dict[tuple[str, str], EntityChange] = {}
        self._by_email: dict[str, EntityChange] = {}
        self.robbed: dict[UUID, EntityChange] = {}
        for entity in known:
            self._add(entity)

    def _add(self, entity: EntityChange) -> None:
        self._by_name[entity.type, entity.name_key] = entity
        for alias in entity.aliases:
            self._by_alias.setdefault((entity.type, fold(alias)), entity)
            if "@" in alias:
                self._by_email.setdefault(alias, entity)
        if entity.email:
            self._by_email[entity.email] = entity

    def find(self, mention: Mention) -> EntityChange | None:
        """The entity of a mention."""
        addressed = self._by_email.get(mention.email) if mention.email else None
        key = (mention.type, fold(mention.name or mention.email))
        named = self._by_name.get(key) or self._by_alias.get(key)
        if addressed and named and addressed is not named and addressed.nameless:
            # So far only the address was known; now it has a name.
            addressed.email, addressed.changed = "", True
            self.robbed[addressed.entity_id] = addressed
            self._by_email[mention.email] = named
            return named
        return addressed or named

    def note(self, entity: EntityChange, mention: Mention) -> None:
        """Add what the mention contributes to the entity."""
        if mention.email and not entity.email:
            entity.email, entity.changed = mention.email, True
        elif mention.email != entity.email:
            self._alias(entity, mention.email)
        if mention.name and entity.nameless:
            del self._by_name[entity.type, entity.name_key]
            entity.name, entity.name_key = mention.name, fold(mention.name)
            entity.changed = True
        owner = self._by_name.get((entity.type, fold(mention.name)))
        if owner in (None, entity):
            self._alias(entity, mention.name)
        self._add(entity)

    @staticmethod
    def _alias(entity: EntityChange, name: str) -> None:
        known = not name or name == entity.name or name in entity.aliases
        if not known and len(entity.aliases) < _MAX_ALIASES:
            entity.aliases.append(name)
            entity.changed = True


def _people(value: Any, *, many: bool) -> Iterator[Mention]:
    """The people in a header or field: a text, an object with name and address, or a list."""
    if isinstance(value, list):
        for item in value:
            yield from _people(item, many=many)
    elif isinstance(value, Mapping):
        name, email = _first(value, _NAME_KEYS), _first(value, _ADDRESS_KEYS)
        yield from _person(f"{_clean(name)} <{email.strip()}>" if email.strip() else name)
    elif isinstance(value, str):
        for text in _split(value) if many or value.count("@") > 1 else [value]:
            yield from _person(text)


def _split(text: str) -> list[str]:
    """The people in a header; "Johnson, Sarah <s@x.example>" is one of them."""
    parts = [part for part in map(str.strip, _PERSON.findall(text)) if part]
    if not any("@" in part for part in parts):
        return parts
    found: list[str] = []
    waiting = ""
    for part in parts:
        joined = f"{waiting}, {part}" if waiting else part
        if "@" in part:
            # Only "<…>" can be preceded by the other half of its name.
            found += [joined] if "<" in part else [*filter(None, [waiting]), part]
            waiting = ""
        else:
            waiting = joined
    return [*found, waiting] if waiting else found


def _person(text: str) -> Iterator[Mention]:
    text = text.strip()
    before, bracket, address = text.removesuffix(">").rpartition("<")
    if bracket and text.endswith(">") and _ADDRESS.fullmatch(address):
        name, email = _clean(before), address.lower()
    elif _ADDRESS.fullmatch(text):
        name, email = "", text.lower()
    else:
        name, email = _clean(text), ""
    if fold(name) == fold(email):
        name = ""
    if len(email) <= _MAX_NAME and len(name) <= _MAX_NAME and fold(name or email):
        yield Mention("person", name, email)


def _names(value: Any) -> Iterator[str]:
    """The names in a field that is not about people."""
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, Mapping):
        yield from _names(_first(value, (*_NAME_KEYS, "key", "address")))
    elif isinstance(value, str):
        name = _clean(value)
        # The web address of a meeting is not a place.
        if len(name) <= _MAX_NAME and "://" not in name and fold(name):
            yield name


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((value[key] for key in keys if isinstance(value.get(key), str) and value[key]), "")


def _clean(name: str) -> str:
    """A name on one line, without surrounding quotes and control characters."""
    kept = "".join(ch for ch in name if ch.isspace() or unicodedata.category(ch) != "Cc")
    return " ".join(kept.split()).strip("\"'").strip()
