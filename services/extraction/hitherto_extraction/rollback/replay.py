"""Rebuilds a memory without some of the statements about it, as a pure function.

The memory is rebuilt from its first version on. Statements of sources are applied by the rules of
learning (`pipeline.merge`), without those that are rolled back. A version that no statement
explains was made by hand or by upkeep: the fields it changed are set again.

A model rewords what it is shown, so a statement from one source may repeat words of another. If the
messages of a statement do not contain the `whole` of it, the words that the memory had from
rolled-back statements are removed.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.closures import ACHIEVED_IMPORTANCE
from hitherto_extraction.pipeline.guards import questions
from hitherto_extraction.pipeline.merge import WORDS, MergeableMemory, merge_update
from hitherto_extraction.pipeline.trust import is_higher, outranks
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import StoredStatement
from hitherto_shared.models import CURRENT_STATUSES

FIELDS = (
    "type", "content", "detail", "importance", "confidence", "origin", "status", "tags",
    "keywords", "context", "metadata", "valid_from", "valid_to", "expires_at", "superseded_by",
    "sensitive", "said_at",
)  # fmt: skip
_MERGED = (*WORDS, "origin", "said_at")
_WORDS_APART = re.compile(r"\s*(?:\w+|[^\w\s]|\Z)")
_NOTHING: Mapping[str, Any] = {
    "type": "fact",
    "content": "",
    "detail": "",
    "importance": 0.5,
    "confidence": "medium",
    "origin": "document",
    "status": "active",
    "tags": [],
    "keywords": [],
    "questions": [],
    "context": {},
    "metadata": {},
    "valid_from": None,
    "valid_to": None,
    "expires_at": None,
    "superseded_by": None,
    "sensitive": False,
    "said_at": None,
}


@dataclass(frozen=True, slots=True)
class Replacement:
    """The memory that ends another, and when it begins to hold."""

    by: UUID
    at: datetime


def replay(
    versions: Sequence[StoredVersion],
    statements: Sequence[StoredStatement],
    *,
    skipped: Collection[int] = (),
    gone: Collection[UUID] = (),
    instead: Mapping[UUID, Replacement] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """The fields of the memory from the remaining statements; None if nothing states it any more.

    Args:
        versions: Every version, the first one first, the present one last.
        statements: All statements about it, in order, including those rolled back.
        skipped: Versions that do not count although no statement explains them: those of roll-backs
            and of jobs that are rolled back.
        gone: Memories that nothing states any more: nothing is closed or held back for them.
        instead: For some of these, and of what other sources state, what closes the memory, or
            holds it back, in their place.
    """
    explained = {each.version for each in statements if each.made_version}
    said = defaultdict[int, list[StoredStatement]](list)
    for each in statements:
        said[each.version].append(each)
    rebuilt = _RebuiltMemory(gone, instead)
    rebuilt.held["type"] = versions[0].fields["type"]
    before: StoredVersion | None = None
    for version in versions:
        if version.version not in explained and version.version not in skipped:
            rebuilt.change(before, version)
        for each in said[version.version]:
            if each.taken:
                rebuilt.hear_no_more(each)
            else:
                shown = before if each.made_version else version
                rebuilt.hear(each, shown.fields if shown is not None else {})
        before = version
    return rebuilt.held if rebuilt.held["content"] else None


class _RebuiltMemory:
    """A memory being rebuilt."""

    def __init__(self, gone: Collection[UUID], instead: Mapping[UUID, Replacement]) -> None:
        self.held: dict[str, Any] = copy.deepcopy(dict(_NOTHING))
        self._gone = frozenset(gone)
        self._instead = instead
        self._ended_at: datetime | None = None

    def change(self, before: StoredVersion | None, after: StoredVersion) -> None:
        """Apply a change by hand or upkeep."""
        held, new = self.held, after.fields
        if before is None:
            held.update(copy.deepcopy({name: new[name] for name in FIELDS}))
            return
        old = before.fields
        unsaid = not held["content"]
        for name in FIELDS:
            if old[name] == new[name]:
                continue
            if name in ("tags", "keywords"):
                kept = [each for each in held[name] if each in new[name] or each not in old[name]]
                added = [each for each in new[name] if each not in old[name]]
                held[name] = list(dict.fromkeys([*kept, *added]))
            elif name in ("context", "metadata"):
                held[name] = _changed_keys(held[name], old[name], new[name])
            else:
                held[name] = new[name]
        held["questions"] = list(questions.kept(held["questions"], held["content"], held["detail"]))
        if unsaid and held["content"]:
            # Only the change by hand that wrote this version states it: it holds since then.
            for name in ("valid_from", "said_at", "origin"):
                held[name] = new[name]
        if new["status"] == "forgotten" and old["status"] != "forgotten":
            self._ended_at = after.at

    def hear(self, statement: StoredStatement, shown: Mapping[str, Any]) -> None:
        """Apply a statement of a source, which was made when the memory was as `shown`."""
        if not statement.said.get("whole", True):
            statement = replace(statement, said=self._without_others(statement.said, shown))
        # Statements from before the introduction of questions have none.
        statement = replace(statement, said={"questions": (), **statement.said})
        match statement.action:
            case "said":
                self._say(statement)
            case "updated":
                self._update(statement)
            case "closed":
                self._close(statement)
            case "challenged":
                if self.held["status"] == "active" and self._challenges(statement.said):
                    self.held["status"] = "quarantined"
            case "joined":
                self._join(statement)

    def hear_no_more(self, statement: StoredStatement) -> None:
        """Apply what is left of a statement that was rolled back.

        Of a contradiction by what is gone, whatever contradicts that one in turn is left; of one by
        what another source states, that.
        """
        if statement.action == "closed" and any(
            each.by in self._instead for each in replacements(statement.said)
        ):
            self._close(statement)

    def _without_others(
        self, said: Mapping[str, Any], shown: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Words that repeat what was shown, without the parts that have been rolled back."""
        words = {
            name: rebased(said[name], shown.get(name) or "", self.held[name])
            for name in ("content", "detail")
            if said.get(name)
        }
        return {**said, **words}

    def _say(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        if not held["content"] and said.get("repeats"):
            return
        trusted, suspect = is_higher(statement.origin), bool(said.get("suspect"))
        if held["status"] == "forgotten":
            late = self._ended_at is not None and statement.said_at <= self._ended_at
            if not held["content"]:
                self._begin(statement)
                held["status"] = "forgotten"
            if trusted and not (suspect or late):
                self._restate(statement)
        elif not held["content"]:
            self._begin(statement)
        elif held["status"] == "quarantined":
            if trusted and not suspect:
                self._restate(statement)
        elif held["status"] in CURRENT_STATUSES and not suspect:
            present = MergeableMemory(**{name: held[name] for name in _MERGED})
            update = merge_update(present, _new(statement))
            for name in _MERGED:
                held[name] = _listed(getattr(update.after, name))

    def _begin(self, statement: StoredStatement) -> None:
        """Create the memory from the first statement that counts."""
        held, said = self.held, statement.said
        self._take_words(statement)
        held["valid_from"] = datetime.fromisoformat(said["valid_from"])
        held["context"] = dict(said.get("context", {}))
        held["metadata"] = dict(said.get("metadata", {}))
        held["sensitive"] = bool(said.get("sensitive", False))
        held["expires_at"] = _moment(said.get("expires_at"))
        held["status"] = "quarantined" if said["suspect"] or self._challenges(said) else "active"
        if said.get("status") == "contradicted":
            named = [self._standing(each, contradicts=True) for each in replacements(said)]
            first = min((each for each in named if each), key=lambda each: each.at, default=None)
            if first is not None:
                self._end("contradicted", first.at, first.by)

    def _restate(self, statement: StoredStatement) -> None:
        """The user restates a quarantined or forgotten memory."""
        self._take_words(statement)
        self.held["status"] = "active"

    def _take_words(self, statement: StoredStatement) -> None:
        said = statement.said
        for name in WORDS:
            self.held[name] = _listed(said[name])
        self.held["origin"], self.held["said_at"] = statement.origin, statement.said_at

    def _update(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        if not held["content"]:
            if not said["content"] or not said.get("whole", True):
                return
            held["origin"], held["valid_from"] = statement.origin, statement.said_at
        elif outranks(held["origin"], statement.origin) or statement.said_at < held["said_at"]:
            return
        for name in ("content", "detail", "confidence"):
            held[name] = said[name] or held[name]
        if said["importance"] is not None:
            held["importance"] = said["importance"]
        held["tags"] = list(dict.fromkeys([*held["tags"], *said["tags"]]))
        asked = [*said["questions"], *held["questions"]]
        held["questions"] = list(questions.kept(asked, held["content"], held["detail"]))
        held["said_at"] = statement.said_at

    def _close(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        status, at, by = said["status"], datetime.fromisoformat(said["valid_to"]), None
        for named in replacements(said):
            replaced = self._standing(named, contradicts=status == "contradicted")
            if replaced is None:
                return
            at, by = replaced.at, replaced.by
        if not held["content"]:
            return
        if held["status"] in CURRENT_STATUSES:
            self._end(status, at, by)
            if status == "achieved":
                held["importance"] *= ACHIEVED_IMPORTANCE
        elif (
            held["status"] == status == "contradicted"
            and held["valid_to"] is not None
            and max(at, held["valid_from"]) < held["valid_to"]
        ):
            # Something that came late held between the memory and what replaced it.
            self._end(status, at, by)

    def _end(self, status: str, at: datetime, by: UUID | None) -> None:
        self.held["status"] = status
        self.held["valid_to"] = max(at, self.held["valid_from"])
        self.held["superseded_by"] = by

    def _standing(self, named: Replacement, *, contradicts: bool) -> Replacement | None:
        """The named replacement, or what stands in its place."""
        if contradicts and named.by in self._instead:
            return self._instead[named.by]
        return named if named.by not in self._gone else None

    def _join(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        if not held["content"] or outranks(held["origin"], statement.origin):
            return
        for name in ("context", "metadata"):
            held[name] = {**held[name], **said[name]}
        held["expires_at"] = _moment(said["expires_at"]) or held["expires_at"]
        held["sensitive"] = held["sensitive"] or said["sensitive"]

    def _challenges(self, said: Mapping[str, Any]) -> bool:
        """Whether a statement contradicts something more trusted that stands, or its successor."""
        named = set(map(UUID, said.get("challenges", ())))
        return not named <= self._gone or not named.isdisjoint(self._instead)


def replacements(said: Mapping[str, Any]) -> Sequence[Replacement]:
    """The memories that end one because of a statement."""
    if "ended_by" in said:
        return [Replacement(UUID(by), datetime.fromisoformat(at)) for by, at in said["ended_by"]]
    # Closings, and statements from before late ones named every memory that ended them.
    by, at = said.get("superseded_by"), said.get("valid_to")
    return [Replacement(UUID(by), datetime.fromisoformat(at))] if by and at else []


def rebased(said: str, shown: str, now: str) -> str:
    """A statement about a memory as it was `shown`, adapted to the memory `now`.

    The words that disappeared between the two are removed from the statement as well. Texts without
    spaces are compared by their characters. Time is linear in the texts.
    """
    if not now or now == shown:
        return said
    was, has, stated = (
        _WORDS_APART.findall(each) if " " in shown else [*each] for each in (shown, now, said)
    )
    kept = iter(has)
    next_kept = next(kept, None)
    lost = []
    for word in was:
        stays = next_kept is not None and word.strip() == next_kept.strip()
        lost.append(not stays)
        if stays:
            next_kept = next(kept, None)
    if next_kept is not None or 2 * sum(lost) > len(was):
        # It has become something else, or hardly anything is left of its subject.
        return now
    at, found = 0, []
    for word in stated:
        repeats = at < len(was) and word.strip() == was[at].strip()
        if not (repeats and lost[at]):
            found.append(word)
        at += repeats
    return "".join(found).strip()


def _changed_keys(
    held: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    found = {key: value for key, value in held.items() if key in new or key not in old}
    return found | {key: value for key, value in new.items() if old.get(key) != value}


def _new(statement: StoredStatement) -> MergeableMemory:
    words = {name: statement.said[name] for name in WORDS}
    return MergeableMemory(**words, origin=statement.origin, said_at=statement.said_at)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
