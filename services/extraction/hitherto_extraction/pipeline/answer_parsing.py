"""Checks the model's reply, which is untrusted: item by item, with ids resolved, dropping the rest.

A bad item never costs the others; dropped items are counted. Nothing here can name a row: the ids
of a reply are local to the call and resolve only to what the prompt contained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any

from hitherto_extraction.pipeline import questions
from hitherto_extraction.pipeline.answer import (
    EVENT_TYPES,
    MAX_CONTENT_BYTES,
    Answer,
    Cited,
    ClosedItem,
    NewItem,
    ProfileItem,
    UpdatedItem,
    content_of,
    entities_of,
    labels,
    moment_of,
    name_of,
    share_of,
    shortened,
)
from hitherto_extraction.pipeline.free_json import (
    SOURCES,
    clean,
    fits_struct,
    leaves,
    says,
    text_of,
    without_pairs,
)
from hitherto_extraction.pipeline.prompt import local_id, message_ids
from hitherto_extraction.provider.reply_text import UnusableAnswer, read_object
from hitherto_shared.models import CONFIDENCES, MEMORY_TYPES, ORIGINS

KEYS = (
    "new_memories",
    "updated_memories",
    "contradicted_memories",
    "achieved_goals",
    "forgotten_memories",
    "profile_changes",
    "profile",
    "conversation_summary",
)

_FIELDS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "profile": {
        "summary": (str,),
        "current_projects": (list, str),
        "preferences": (dict, list),
        "frequent_intents": (list, str),
        "facts": (dict, list),
        "metadata": (dict, list),
    },
    "conversation_summary": {
        "title": (str,),
        "summary": (str,),
        "key_topics": (list, str),
        "technical_topics": (list, str),
        "outcome": (str,),
        "followup_suggestions": (list, str),
    },
}
"""The objects of a reply: their fields, and the types that each field accepts."""
_UPDATED = "updated_memories"
_WITHOUT_KEYS = ("summary", "current_projects", "frequent_intents")

MAX_ITEMS = 200
"""Maximum number of new memories from one reply; further ones are dropped and counted."""
_MAX_VALUES = 50
"""Maximum number of values of the profile, at any depth, that a model may report at once."""


@dataclass(slots=True)
class _Check:
    """Collects what one reply yields and how much of it had to be dropped.

    `refused` names the dropped items of lists, with the reasons. `formed` counts the items of the
    requested form, including those that are dropped; `shapeless` those of another form, including
    lists of the wrong type; `odd` counts an invalid profile and summary.
    """

    messages: frozenset[str]
    memories: frozenset[str]
    events: frozenset[str]
    zone: tzinfo = UTC
    dropped: int = 0
    formed: int = 0
    shapeless: int = 0
    odd: int = 0
    seen_memories: set[tuple[str, str]] = field(default_factory=set)
    refused: list[tuple[str, str]] = field(default_factory=list)
    why: str = ""

    def misshapen(self) -> None:
        self.dropped += 1
        self.shapeless += 1

    def list_of(self, reply: Mapping[str, Any], key: str) -> list[Any]:
        value = reply.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.misshapen()
            return []
        return value

    def object_of(self, reply: Mapping[str, Any], key: str) -> dict[str, Any] | None:
        """The value of a key that holds an object with some of its fields; None if it is empty."""
        value = reply.get(key)
        if not says(value):
            return None
        fields = _FIELDS[key]
        if not isinstance(value, dict) or not any(
            says(value.get(name)) and isinstance(value[name], kinds)
            for name, kinds in fields.items()
        ):
            self.dropped += 1
            self.odd += 1
            return None
        return value

    def each(self, key: str, raws: Sequence[Any], read: Callable[[int, Any], Any]) -> list[Any]:
        """What `read` makes of each item of a list; the others are dropped, and named."""
        found = []
        for number, raw in enumerate(raws):
            formed, self.why = self.formed, "refused_shape"
            try:
                item = read(number, raw)
            except (TypeError, ValueError, KeyError, OverflowError):
                item = None
            if item is not None:
                self.formed = formed + 1
                found.append(item)
                continue
            self.refused.append((f"{key}[{number}]", self.why))
            if self.formed > formed:
                self.dropped += 1
            else:
                self.misshapen()
        return found

    def new_item(self, index: int, raw: Any) -> NewItem | None:
        if not isinstance(raw, dict):
            return None
        kind = name_of(raw.get("type") or "fact")
        if kind not in MEMORY_TYPES:
            return None
        content = content_of(raw.get("content"))
        if content is None:
            return None
        detail = text_of(raw.get("detail"))
        if kind in EVENT_TYPES:
            content, detail = shortened(content, detail)
        detail = detail if len(detail.encode()) <= MAX_CONTENT_BYTES else ""
        confidence, origin = name_of(raw.get("confidence")), name_of(raw.get("origin"))
        same_as = local_id(raw.get("same_as"))
        context = clean(raw.get("context") or {})
        return NewItem(
            index=index,
            type=kind,
            content=content,
            detail=detail,
            importance=self._importance(raw.get("importance"), 0.5),
            confidence=confidence if confidence in CONFIDENCES else "medium",
            tags=labels(raw.get("tags"), snake=True),
            keywords=labels(raw.get("keywords"), snake=False),
            entities=entities_of(raw.get("entities")),
            context=context if isinstance(context, dict) and fits_struct(context) else {},
            source_ids=self.source_ids(raw) or (),
            valid_from=self._moment(raw.get("valid_from")),
            origin=origin if origin in ORIGINS else None,
            questions=self._questions(raw, content, detail),
            same_as=same_as if same_as in self.memories else None,
            expires_at=self._moment(raw.get("expires_at"), end=True),
        )

    def updated_item(self, number: int, raw: Any) -> UpdatedItem | None:
        if not isinstance(raw, dict):
            return None
        content, detail = content_of(raw.get("content")), ""
        importance = self._importance(raw.get("importance"), None)
        tags = labels(raw.get("tags"), snake=True)
        if content is None and importance is None and not tags:
            return None
        memory = self._known(raw, _UPDATED)
        if memory is None:
            return None
        if content is not None and memory in self.events:
            content, detail = shortened(content, "")
        confidence = name_of(raw.get("confidence"))
        return UpdatedItem(
            index=number,
            cited=self.cited(f"{_UPDATED}[{number}]", raw),
            memory=memory,
            content=content,
            detail=detail,
            importance=importance,
            confidence=confidence if confidence in CONFIDENCES else None,
            tags=tags,
            questions=self._questions(raw, content or "", detail),
        )

    def closed_item(self, how: str, new_count: int, number: int, raw: Any) -> ClosedItem | None:
        memory = self._known(raw, how)
        if memory is None:
            return None
        by = raw.get("by")
        if by is not None and not _is_index(by, new_count):
            return None
        cited = self.cited(f"{how}[{number}]", raw)
        return ClosedItem(cited, memory, by, text_of(raw.get("reason"))[:500])

    def forgotten_item(self, new_count: int, number: int, raw: Any) -> ClosedItem | None:
        new = raw.get("new") if isinstance(raw, dict) and not raw.get("id") else None
        cited = f"forgotten_memories[{number}]"
        if _is_index(new, new_count):
            self.formed += 1
            return ClosedItem(self.cited(cited, raw), new=new)
        memory = self._known(raw, "forgotten_memories")
        return None if memory is None else ClosedItem(self.cited(cited, raw), memory)

    def profile_item(self, number: int, raw: Any) -> ProfileItem | None:
        if not isinstance(raw, dict) or not isinstance(raw.get("path"), str):
            return None
        value, ended = clean(raw.get("value")), raw.get("ended") is True
        field, _, rest = text_of(raw["path"]).partition(".")
        keys = [] if not rest else rest.split(".", 1) if field == "facts" else [rest]
        if field not in _FIELDS["profile"] or not all(keys) or not (ended or says(value)):
            return None
        self.formed += 1
        if (field in _WITHOUT_KEYS) == bool(keys) or isinstance(value, dict):
            return None
        cited = self.cited(f"profile_changes[{number}]", raw)
        return ProfileItem(cited, (field, *keys), value, ended)

    def profile_of_earlier_prompts(self, value: Mapping[str, Any] | None) -> list[ProfileItem]:
        """The values of an object `profile`, which earlier prompts asked for."""
        given = without_pairs(clean(value)) if value else {}
        cited = self.cited("profile", value or {})
        found = [
            ProfileItem(cited, path, leaf, in_own_words=not cited.quote)
            for field in _FIELDS["profile"]
            for path, leaf in leaves(given.get(field), (field,))
            if (field in _WITHOUT_KEYS) == (len(path) == 1)
        ]
        if value and not found:
            self.dropped += 1
            # One without a bottom, or with nothing in it, still has the form.
            known = any(isinstance(value.get(field), Mapping) for field in _FIELDS["profile"])
            self.formed += known
            self.odd += not known
        return found

    def cited(self, item: str, raw: Mapping[str, Any]) -> Cited:
        return Cited(item, self.source_ids(raw), text_of(raw.get("quote")))

    def _known(self, raw: Any, how: str) -> str | None:
        """The local id of a memory that was in the prompt and has not yet ended in this way."""
        if not isinstance(raw, dict):
            return None
        memory = local_id(raw.get("id"))
        if not memory:
            return None
        self.formed += 1
        if memory not in self.memories:
            self.why = "refused_id"
            return None
        if (how, memory) in self.seen_memories:
            self.why = "refused_repeated"
            return None
        if how != _UPDATED:
            # The words of a second update are not lost: `updates` decides about them.
            self.seen_memories.add((how, memory))
        return memory

    def source_ids(self, raw: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The valid message ids of an item; None if it names none at all."""
        given = raw.get(SOURCES)
        if given is None or given == []:
            return None
        given = given if isinstance(given, list) else [given]
        known = message_ids(given, self.messages)
        self.dropped += len(given) - len(known)
        return tuple(dict.fromkeys(known))

    def _questions(self, raw: Mapping[str, Any], *texts: str) -> tuple[str, ...]:
        """The questions of an item that its words answer; the others count as dropped."""
        given = raw.get("questions")
        if not isinstance(given, list):
            return ()
        lines = [" ".join(text_of(each).split()) for each in given[: 2 * questions.MAX_QUESTIONS]]
        found = questions.kept(lines, *texts)
        self.dropped += len(given) - len(found)
        return found

    def _importance(self, value: Any, default: float | None) -> Any:
        """A number in 0..1; one outside is clamped, anything else becomes `default`.

        Both are counted.
        """
        if value is None:
            return default
        found = share_of(value)
        self.dropped += found is None or found != value
        return default if found is None else found

    def _moment(self, value: Any, *, end: bool = False) -> datetime | None:
        """A date or time in the model's notation; one outside the years 1900 to 2200 is dropped."""
        if value is None or value == "":
            return None
        found = moment_of(value, self.zone, end=end)
        if found is None:
            self.dropped += 1
        return found


def read_answer(
    text: str,
    *,
    messages: Sequence[str],
    memories: Sequence[str],
    events: Sequence[str] = (),
    zone: tzinfo = UTC,
) -> Answer:
    """Turn a reply into an `Answer`.

    `messages` and `memories` are the local ids in the prompt, `events` those of memories with one
    of `EVENT_TYPES`, whose content is short. A day begins in `zone`.

    Raises:
        UnusableAnswer: There is no JSON object with a known key, or it has contents but no item of
            the requested form. Well-formed items that are dropped, for example for an unknown id,
            still make an answer.
    """
    reply = _load(text)
    check = _Check(frozenset(messages), frozenset(memories), frozenset(events), zone)
    items = check.list_of(reply, "new_memories")
    if len(items) > MAX_ITEMS:
        check.dropped += len(items) - MAX_ITEMS

    def numbered(key: str, read: Callable[[int, Any], Any]) -> list[Any]:
        return check.each(key, check.list_of(reply, key), read)

    def closed(key: str) -> list[ClosedItem]:
        return numbered(key, partial(check.closed_item, key, len(items)))

    profile, summary = (check.object_of(reply, key) for key in _FIELDS)
    values = numbered("profile_changes", check.profile_item)
    values += check.profile_of_earlier_prompts(profile)
    check.dropped += max(0, len(values) - _MAX_VALUES)
    answer = Answer(
        new=check.each("new_memories", items[:MAX_ITEMS], check.new_item),
        updated=numbered(_UPDATED, check.updated_item),
        contradicted=closed("contradicted_memories"),
        achieved=closed("achieved_goals"),
        forgotten=numbered("forgotten_memories", partial(check.forgotten_item, len(items))),
        profile=values[:_MAX_VALUES],
        summary=clean(summary) if summary else None,
    )
    nothing_else = not (answer.profile or answer.summary)
    if not check.formed and (check.shapeless or (check.odd and nothing_else)):
        raise UnusableAnswer(
            "none of its items has the required form; a new memory needs a `content` and no "
            "unknown `type`, a change takes the `id` of an existing memory"
        )
    return replace(answer, dropped=check.dropped, refused=tuple(check.refused))


def _is_index(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def _load(text: str) -> dict[str, Any]:
    reply, wrapped = read_object(text, KEYS)
    if not any(key in reply for key in KEYS):
        raise UnusableAnswer("the reply has none of the required keys")
    if not any(isinstance(reply.get(key), dict if key in _FIELDS else list) for key in KEYS):
        raise UnusableAnswer("every key of the reply holds the wrong kind of value")
    if not any(isinstance(reply.get(key), list) or says(reply.get(key)) for key in KEYS):
        raise UnusableAnswer("the reply says nothing, not even that there is nothing to remember")
    if wrapped and not any(says(reply.get(key)) for key in KEYS):
        # A reply of the wrong form is read for what it found, rather than taken to say that there
        # is nothing.
        raise UnusableAnswer("the reply is not bare JSON and says nothing")
    return reply
