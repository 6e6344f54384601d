"""Decides what a reply changes in the profile, and which values no longer rest on anything.

Every value keeps the message and the day it comes from, and the memories that were learnt from the
same words and hold it; it goes with the last of these. A summary is the model's own words, and
needs the quote alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline import trust
from hitherto_extraction.pipeline.answer import ProfileItem
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.draft import whole
from hitherto_extraction.pipeline.evidence import ChangeRefused, Evidence, Witnesses
from hitherto_extraction.pipeline.free_json import ABSENT, Path, put_at, value_at
from hitherto_extraction.pipeline.operations import Plan, Refused
from hitherto_extraction.pipeline.profile import (
    FIELDS,
    LISTS,
    copied,
    ended_path,
    is_later_known,
    merge_value,
    said_path,
    with_values,
    without_alias,
)
from hitherto_extraction.pipeline.quotes import contains, says_the_rest
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.models import Profile, SourceRef

_ITEM = "#"
"""Stands between the path of a list and one of its items, in the path of a source."""

_MOST_MARKS = 2_000
"""Number of times beside a profile from which no further end of a value is noted."""

Supports = Callable[[UUID], str | None]
"""What a memory says now; None if it is not current. Raises KeyError for one that is unaffected."""
Successors = Callable[[UUID], UUID | None]
"""The memory that replaced one, if there is one."""

_NAME: Path = ("facts", "personal", "name")


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value that somebody said, or that ended, at an event time."""

    path: Path
    value: Any
    ended: bool
    said_at: datetime
    source: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The change as a statement stores it: without the quote, which goes with its message."""
        return {
            "path": list(self.path),
            "value": self.value,
            "ended": self.ended,
            "said_at": self.said_at.isoformat(),
            "source": {name: held for name, held in self.source.items() if name != "quote"},
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> ValueChange:
        """The change that a statement stores."""
        at = datetime.fromisoformat(said["said_at"])
        source = {**said["source"], "quote": ""} if said["source"] else {}
        return cls(tuple(said["path"]), said["value"], said["ended"], at, source)


@dataclass(slots=True)
class ProfileState:
    """A profile being changed, and when each of its values was said.

    `changed` holds the paths of the values that differ from the beginning, `dropped` the number of
    values that do not fit, and `beyond` that of those for which there is no room.
    """

    profile: Profile
    said_at: dict[str, str]
    changed: dict[str, None] = field(default_factory=dict)
    dropped: int = 0
    beyond: int = 0

    def apply(self, change: ValueChange) -> None:
        """Apply a change, unless something later is known about its value."""
        path = without_alias(change.path)
        if change.ended:
            self._end(path, change.value, change.said_at)
            return
        merged = merge_value(self.profile, self.said_at, path, change.value, change.said_at)
        self.profile, self.said_at = merged.profile, merged.said_at
        self.dropped += merged.dropped
        self.beyond += merged.beyond
        self.changed |= dict.fromkeys(merged.changed)
        now = self.value_at(path)
        if isinstance(now, list | tuple):
            given = change.value if isinstance(change.value, list) else [change.value]
            self._place({item_path(path, each): change.source for each in given if each in now})
        elif now == change.value:
            self._place({said_path(*path): change.source})

    def value_at(self, path: Path) -> Any:
        """The value at a path; `ABSENT` without one."""
        return value_at({name: getattr(self.profile, name) for name in FIELDS}, path)

    def remove(self, path: Path, item: Any = None) -> None:
        """Take a value out, or an item out of a list."""
        held = self.value_at(path)
        if held is ABSENT or held in ("", [], ()):
            return
        left: Any = ABSENT
        if item is not None and isinstance(held, list | tuple):
            left = [each for each in held if not _same(each, item)] or ABSENT
            if left is not ABSENT and len(left) == len(held):
                return
        values = {name: copied(getattr(self.profile, name)) for name in FIELDS}
        if len(path) == 1:
            values[path[0]] = [] if path[0] in LISTS else ""
            if left is not ABSENT:
                values[path[0]] = left
        else:
            put_at(values, path, left, prune=True)
        self.profile = with_values(self.profile, values)
        name = said_path(*path)
        self.changed[name] = None
        gone = [
            each
            for each in self.profile.sources
            if each == name or each.startswith((f"{name}.", f"{name}{_ITEM}"))
        ]
        if item is not None and left is not ABSENT:
            gone = [each for each in gone if _same(each.partition(_ITEM)[2], item)]
        kept = {key: value for key, value in self.profile.sources.items() if key not in gone}
        self.profile = replace(self.profile, sources=kept)

    def drop_unsupported(
        self,
        says: Supports,
        successor: Successors = lambda _: None,
        *,
        told: Supports | None = None,
        corrected: Collection[UUID] = (),
    ) -> None:
        """Take out the values whose memories have all ended.

        What replaced such a memory takes its place if it holds the value too. A memory in new words
        still bears the value, unless they lack a number of it ("20 mg" after "10 mg"), or it was
        `corrected` by hand and they no longer hold it. The user's name, which a memory about
        anything may hold, also rests on what is over, as long as that is `told` and was not
        replaced in the name alone.
        """
        for key, source in list(self.profile.sources.items()):
            memory_ids = [
                each for name in source.get("memory_ids", ()) if (each := parse_uuid(name))
            ]
            if not memory_ids:
                continue
            item, path = key.partition(_ITEM)[2], tuple(source["path"])
            value = item or self.value_at(path)
            left = [
                each
                for each in memory_ids
                if _supports(says, each, value, wholly=each in corrected)
            ]
            if not left:
                heirs = [heir for each in memory_ids if (heir := successor(each)) is not None]
                left = [each for each in heirs if _supports(says, each, value)]
                if told is not None and path == _NAME and not left:
                    left = [
                        each
                        for each in memory_ids
                        if _supports(told, each, value)
                        and not _differs_alone(told, each, successor(each), value)
                    ]
                if not left:
                    self.remove(path, item or None)
                    continue
                named = {**source, "memory_ids": [str(each) for each in left]}
                sources = {**self.profile.sources, key: named}
                self.profile = replace(self.profile, sources=sources)

    def _end(self, path: Path, value: Any, said_at: datetime) -> None:
        if is_later_known(self.said_at, path, said_at):
            return
        held = self.value_at(path)
        one = value not in (None, "", [])
        if held is ABSENT or (one and isinstance(held, list | tuple)):
            for each in value if isinstance(value, list) else [value]:
                if not self._is_said_after(item_path(path, each), said_at):
                    self.remove(path, each)
                    self._note_end(path, each, said_at)
            return
        self.remove(path)
        self._note_end(path, None, said_at)

    def _note_end(self, path: Path, value: Any, said_at: datetime) -> None:
        """Note when a value ended, with None all that stands there, known or not."""
        name = said_path(*path) if value in (None, "") else ended_path(path, value)
        noted = self.said_at.get(name)
        if (noted is None and len(self.said_at) >= _MOST_MARKS) or (
            noted is not None and datetime.fromisoformat(noted) >= said_at
        ):
            return
        self.said_at[name] = said_at.isoformat()

    def _is_said_after(self, name: str, said_at: datetime) -> bool:
        """Whether the profile holds a value, by the path of its source, that was said later."""
        source = self.profile.sources.get(name)
        return source is not None and datetime.fromisoformat(source["said_at"]) > said_at

    def _place(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        given = {
            key: dict(source)
            for key, source in sources.items()
            if source and not self._is_said_after(key, datetime.fromisoformat(source["said_at"]))
        }
        self.profile = replace(self.profile, sources={**self.profile.sources, **given})


@dataclass(frozen=True, slots=True)
class ProfileLearning:
    """What a reply teaches about the profile.

    `said` are its changes with their evidence, whether or not they change anything now. `dropped`
    counts the values that do not fit beyond the first of each item, which is `refused`.
    """

    state: ProfileState
    said: Sequence[tuple[ValueChange, Evidence]]
    refused: Sequence[Refused]
    dropped: int


def learn(
    profile: Profile,
    said_at: Mapping[str, str],
    items: Sequence[ProfileItem],
    witnesses: Witnesses,
    plan: Plan,
    *,
    beside_unnamed: bool = False,
) -> ProfileLearning:
    """The profile after a reply, with the values that its changes of memories leave unsupported.

    For `beside_unnamed` see `Witnesses.speaks_for_user`.
    """
    state = ProfileState(profile, dict(said_at))
    # What falls first: a value that the reply gives anew rests on its new words.
    state.drop_unsupported(plan.says, plan.successor_of, told=plan.told)
    stating = defaultdict[SourceRef, dict[UUID, None]](dict)
    for memory_id, origin in plan.sources:
        stating[origin][memory_id] = None
    said: list[tuple[ValueChange, Evidence]] = []
    named: list[tuple[ValueChange, str]] = []
    refused: list[Refused] = []
    changed = _words_of_what_changed(plan)
    for item in items:
        try:
            evidence = _evidence(state, item, witnesses, changed, beside_unnamed)
        except ChangeRefused as refusal:
            refused.append(Refused.of(item.cited.item, refusal.reason))
            continue
        source = _source(item, evidence, plan.says, stating)
        change = ValueChange(item.path, item.value, item.ended, evidence.said_at, source)
        said.append((change, evidence))
        named.append((change, item.cited.item))
    unfit: list[Refused] = []
    for change, name in sorted(named, key=lambda pair: pair[0].said_at):
        dropped, beyond = state.dropped, state.beyond
        state.apply(change)
        if state.dropped > dropped:
            reason = "refused_limit" if state.beyond > beyond else "refused_form"
            unfit.append(Refused.of(name, reason, "what is there stays"))
    return ProfileLearning(state, said, [*refused, *unfit], state.dropped - len(unfit))


def _words_of_what_changed(plan: Plan) -> list[str]:
    """What the memories that a reply changes said and say: "it ends in 703" leaves the rest out.

    A memory may be changed and then forgotten by one reply.
    """
    changes = [*plan.closures, *plan.rewrites]
    forgotten = {each.after.memory_id for each in changes if each.after.status == "forgotten"}
    return [
        whole(each)
        for change in changes
        if change.after.memory_id not in forgotten and trust.is_higher(change.before.origin)
        for each in (change.before, change.after)
    ]


def _evidence(
    state: ProfileState,
    item: ProfileItem,
    witnesses: Witnesses,
    changed: Sequence[str],
    beside_unnamed: bool,
) -> Evidence:
    """The evidence that bears a value; refused if there is none.

    Its numbers may also stand in the words of what the reply `changed`.
    """
    held = state.value_at(item.path)
    if item.in_own_words:
        each = [witnesses.for_own_words(item.cited, text) for text in _texts(item.value)]
        if not each:
            raise ChangeRefused("refused_form")
    else:
        each = [witnesses.for_change(item.cited)]
    found = each[0]
    if not found.trusted:
        raise ChangeRefused("refused_by_trust")
    said_in = [one.quoted for one in each if one.quoted is not None]
    if not all(witnesses.speaks_for_user(m, beside_unnamed=beside_unnamed) for m in said_in):
        raise ChangeRefused("refused_speaker")
    if any(trust.is_suspect([text], trusted=True) for text in _texts([*item.path, item.value])):
        raise ChangeRefused("refused_instruction")
    if not item.ended and item.path[0] != "summary":
        known = [*_texts(held), *found.words, *changed]
        if any(strange(text, known, found.days) for text in _texts(item.value)):
            raise ChangeRefused("refused_digits")
    return found


def _source(
    item: ProfileItem,
    evidence: Evidence,
    says: Supports,
    stating: Mapping[SourceRef, Collection[UUID]],
) -> dict[str, Any]:
    """Where a value comes from, as the profile stores it: with the memories that state it."""
    quoted = evidence.quoted
    assert quoted is not None
    texts = list(_texts(item.value))
    rests = [
        memory_id
        for memory_id in stating.get(quoted, ())
        if item.path[0] != "summary" and any(_supports(says, memory_id, text) for text in texts)
    ]
    return {
        "path": list(without_alias(item.path)),
        "conversation_id": quoted.conversation_id,
        "message_id": quoted.message_id,
        "said_at": evidence.said_at.isoformat(),
        "memory_ids": [str(each) for each in rests],
        "quote": evidence.quote,
    }


def _supports(says: Supports, memory_id: UUID, value: Any, *, wholly: bool = True) -> bool:
    """Whether a memory is current and holds a value; unless `wholly`, if it lacks no number of it.

    One that is unaffected supports whatever it did.
    """
    try:
        words = says(memory_id)
    except KeyError:
        return True
    if words is None:
        return False
    if wholly:
        return any(contains(words, text) for text in _texts(value))
    return not any(strange(text, [words], ()) for text in _texts(value))


def _differs_alone(told: Supports, memory_id: UUID, by: UUID | None, value: Any) -> bool:
    """Whether a memory was replaced by one that says the same but for a value."""
    try:
        old, new = told(memory_id), None if by is None else told(by)
    except KeyError:
        return False
    if old is None or new is None:
        return False
    return any(says_the_rest(old, text, new) for text in _texts(value))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value:.15g}"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return same_words(one, other)
    return bool(one == other)


def item_path(path: Path, item: Any) -> str:
    """The path of an item of a list, as `Profile.sources` names it."""
    return f"{said_path(*path)}{_ITEM}{item}"
