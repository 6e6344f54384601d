"""A memory being rebuilt: how a statement of a source, or a change without one, changes it.

Statements are applied by the rules of learning (`pipeline.merge`). What is left stands word for
word as one of the remaining sources said it. A statement that only repeated (`repeats`) what is
rolled back states it by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline import questions
from hitherto_extraction.pipeline.closures import ACHIEVED_IMPORTANCE
from hitherto_extraction.pipeline.dedupe import same_words
from hitherto_extraction.pipeline.draft import whole_words
from hitherto_extraction.pipeline.merge import WORDS, MergeableMemory, merge_update
from hitherto_extraction.pipeline.trust import is_higher, outranks, raised
from hitherto_extraction.pipeline.updates import expiry_after
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import StoredStatement
from hitherto_shared.models import CURRENT_STATUSES

_MERGED = (*WORDS, "origin", "said_at")
ENDING = ("status", "valid_to", "superseded_by")
_JOINED = "superseded"
LAPSED = frozenset({"forgotten", "archived", _JOINED})
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
    "may_replace": [],
    "doubt": None,
}
FIELDS = tuple(name for name in _NOTHING if name != "questions")
"""What a version of a memory holds of it."""


class RebuiltMemory:
    """A memory being rebuilt."""

    def __init__(self, gone: Collection[UUID], hidden: Collection[UUID]) -> None:
        self.held: dict[str, Any] = copy.deepcopy(dict(_NOTHING))
        self.at: datetime | None = None
        self._gone = frozenset(gone)
        self._hidden = frozenset(hidden)
        self.ended_at: datetime | None = None
        self._before: dict[str, dict[str, Any]] = {}

    def state(
        self,
        version: StoredVersion,
        earlier: Sequence[StoredVersion],
        undone: Collection[int],
    ) -> None:
        """Begin with a version that states it, as it was then.

        Without the ends that are gone: those that the `undone` ones of the `earlier` versions made,
        or something that is gone.
        """
        self.held.update(copy.deepcopy({name: version.fields[name] for name in FIELDS}))
        while (ending := self._ending(earlier)) is not None:
            end = earlier[ending].fields
            nothing = {name: _NOTHING[name] for name in ENDING}
            before = earlier[ending - 1].fields if ending else {**end, **nothing}
            if earlier[ending].version not in undone and not self._is_lost(earlier[ending]):
                break
            earlier = earlier[:ending]
            for name in (*ENDING, "importance"):
                if self.held[name] == end[name]:
                    self.held[name] = before[name]

    def _ending(self, versions: Sequence[StoredVersion]) -> int | None:
        """The place of the first version that had ended as it has."""
        end = [self.held[name] for name in ENDING]
        found = (n for n, each in enumerate(versions) if [each.fields[m] for m in ENDING] == end)
        return next(found, None)

    def restore(self, before: StoredVersion, after: StoredVersion) -> None:
        """Return to what it was before it lapsed, by what is left: somebody restored it."""
        self.change(before, after, ends=False)
        kept = LAPSED if after.fields["status"] != _JOINED else LAPSED - {_JOINED}
        while (status := self.held["status"]) in kept:
            self.held.update(self._before.pop(status, {name: _NOTHING[name] for name in ENDING}))

    def _is_lost(self, ending: StoredVersion) -> bool:
        """Whether a version ended it because of a memory that is gone: then it has not ended.

        Only a job did so, or a roll-back that joined it. If somebody asked to forget the other one,
        they also asked for what was joined to it.
        """
        joined = ending.fields["status"] == _JOINED
        gone = self._gone - self._hidden if joined else self._gone
        return (joined or ending.job_id is not None) and ending.fields["superseded_by"] in gone

    def _lapse(self, status: str) -> None:
        """Remember what it is before it is forgotten, archived or joined."""
        if status in LAPSED and self.held["status"] != status:
            self._before[status] = {name: self.held[name] for name in ENDING}

    def change(
        self, before: StoredVersion | None, after: StoredVersion, *, ends: bool = True
    ) -> None:
        """Apply a change by hand or upkeep; unless it `ends`, without how that one ended."""
        held, new = self.held, after.fields
        if before is None:
            self.state(after, (), ())
            return
        old = before.fields
        unsaid, undone = not held["content"], self._is_lost(after)
        # What has not ended is as uncertain and as important as it was.
        stays = (*ENDING, "doubt", "importance") if undone else () if ends else ENDING
        if old["status"] != new["status"] and not stays:
            self._lapse(new["status"])
        for name in FIELDS:
            if old[name] == new[name] or name in stays:
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
        if stays:
            return
        if unsaid and held["content"]:
            # Only the change by hand that wrote this version states it: it holds since then.
            for name in ("valid_from", "said_at", "origin"):
                held[name] = new[name]
        if new["status"] == "forgotten" and old["status"] != "forgotten":
            self.ended_at = after.at

    def forget(self, at: datetime) -> None:
        """Forget it, whatever else has forgotten it."""
        self._lapse("forgotten")
        self.held["status"], self.held["superseded_by"], self.ended_at = "forgotten", None, at

    def hear(self, statement: StoredStatement) -> None:
        """Apply a statement of a source."""
        # Statements from before the introduction of questions have none.
        statement = replace(statement, said={"questions": (), **statement.said})
        match statement.action:
            case "said":
                self._say(statement)
                self._link(statement.said)
            case "updated":
                self._update(statement)
            case "closed":
                self._close(statement)
            case "challenged":
                if self.held["status"] == "active" and self._challenges(statement.said):
                    self.held["status"] = "quarantined"
            case "joined":
                self._join(statement)

    def _say(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        trusted, suspect = is_higher(statement.origin), bool(said.get("suspect"))
        if held["status"] == "forgotten":
            late = self.ended_at is not None and statement.said_at <= self.ended_at
            if not held["content"]:
                self._begin(statement)
                self._lapse("forgotten")
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
            new = _new(statement)
            if said.get("repeats"):
                # In other words: they count only if nothing else states the memory.
                new = replace(new, content=present.content, detail="")
            elif _rewords(present, new):
                # The words that it repeated are gone from before it.
                present = replace(present, content=new.content, detail=new.detail or present.detail)
            update = merge_update(present, new)
            for name in _MERGED:
                held[name] = _listed(getattr(update.after, name))
            since = (held["doubt"] or {}).get("since")
            if since is not None and statement.said_at >= datetime.fromisoformat(since):
                held["doubt"] = None

    def _link(self, said: Mapping[str, Any]) -> None:
        """Name what the memory may replace, by the words of a statement."""
        named = [*self.held["may_replace"], *map(UUID, said.get("may_replace", ()))]
        self.held["may_replace"] = list(dict.fromkeys(named))

    def _begin(self, statement: StoredStatement) -> None:
        """Create the memory from the first statement that counts."""
        held, said = self.held, statement.said
        self._take_words(statement)
        held["valid_from"] = datetime.fromisoformat(said["valid_from"])
        held["context"] = dict(said.get("context", {}))
        held["metadata"] = dict(said.get("metadata", {}))
        held["sensitive"] = bool(said.get("sensitive", False))
        held["expires_at"] = _moment(said.get("expires_at"))
        if held["status"] in LAPSED - {"forgotten"}:
            # It repeats what another memory stands for, or what was archived.
            return
        held["status"] = "quarantined" if said["suspect"] or self._challenges(said) else "active"
        if said.get("status") == "forgotten":
            self._lapse("forgotten")
            held["status"], self.ended_at = "forgotten", self.at
        if said.get("status") == "contradicted":
            named = [each for each in replacements(said) if each[0] not in self._gone]
            if named:
                by, at = min(named, key=lambda each: each[1])
                self._end("contradicted", at, by)

    def _restate(self, statement: StoredStatement) -> None:
        """The user restates a quarantined or forgotten memory."""
        self._take_words(statement)
        self.held["status"], self.held["doubt"] = "active", None
        expires_at = self.held["expires_at"]
        if expires_at is not None and expires_at <= statement.said_at:
            self.held["expires_at"] = None

    def _take_words(self, statement: StoredStatement) -> None:
        said = statement.said
        for name in WORDS:
            self.held[name] = _listed(said[name])
        self.held["origin"], self.held["said_at"] = statement.origin, statement.said_at

    def _update(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        if not held["content"]:
            if not said["content"]:
                return
            held["origin"], held["valid_from"] = statement.origin, statement.said_at
        elif outranks(held["origin"], statement.origin) or statement.said_at < held["said_at"]:
            return
        old = whole_words(held["content"], held["detail"])
        if said["content"] and not same_words(held["content"], said["content"]):
            held["content"], held["detail"] = said["content"], said["detail"]
            held["origin"] = raised(held["origin"], said.get("origin", held["origin"]))
        new = whole_words(held["content"], held["detail"])
        held["expires_at"] = expiry_after(held["expires_at"], old, new, statement.said_at)
        held["confidence"] = said["confidence"] or held["confidence"]
        if said["importance"] is not None:
            held["importance"] = said["importance"]
        held["tags"] = list(dict.fromkeys([*held["tags"], *said["tags"]]))
        asked = [*said["questions"], *held["questions"]]
        held["questions"] = list(questions.kept(asked, held["content"], held["detail"]))
        held["said_at"], held["doubt"] = statement.said_at, None

    def _close(self, statement: StoredStatement) -> None:
        held, said = self.held, statement.said
        status, at = said["status"], datetime.fromisoformat(said["valid_to"])
        by = UUID(said["superseded_by"]) if said["superseded_by"] else None
        if by in self._gone:
            return
        if status == "forgotten":
            # Also before anything that is left states it, and if it is forgotten already or waits
            # for review: the newest request counts.
            self.forget(at)
            return
        if held["status"] not in CURRENT_STATUSES or not held["content"]:
            return
        self._end(status, at, by)
        if status == "achieved":
            held["importance"] *= ACHIEVED_IMPORTANCE

    def _end(self, status: str, at: datetime, by: UUID | None) -> None:
        self.held["status"] = status
        self.held["valid_to"] = max(at, self.held["valid_from"])
        self.held["superseded_by"] = by

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
        return not set(map(UUID, said.get("challenges", ()))) <= self._gone


def replacements(said: Mapping[str, Any]) -> Sequence[tuple[UUID, datetime]]:
    """The memories that end one because of a statement, each with the moment."""
    if "ended_by" in said:
        return [(UUID(by), datetime.fromisoformat(at)) for by, at in said["ended_by"]]
    by, at = said.get("superseded_by"), said.get("valid_to")
    return [(UUID(by), datetime.fromisoformat(at))] if by and at else []


def _changed_keys(
    held: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    found = {key: value for key, value in held.items() if key in new or key not in old}
    return found | {key: value for key, value in new.items() if old.get(key) != value}


def _new(statement: StoredStatement) -> MergeableMemory:
    words = {name: statement.said[name] for name in WORDS}
    return MergeableMemory(**words, origin=statement.origin, said_at=statement.said_at)


def _rewords(present: MergeableMemory, new: MergeableMemory) -> bool:
    return (
        new.said_at > present.said_at
        and not outranks(present.origin, new.origin)
        and not same_words(present.content, new.content)
    )


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
