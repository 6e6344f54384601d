"""Records each statement of a source in its own words, for RollbackSource.

A memory or profile combines all sources. These rows hold what each source said, so that the rest
can be rebuilt when one is rolled back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.answer import NewItem
from hitherto_extraction.pipeline.evidence import Evidence, Witnesses
from hitherto_extraction.pipeline.operations import Creation, Occasion, Plan, Rewrite
from hitherto_extraction.pipeline.profile_changes import ValueChange
from hitherto_extraction.pipeline.summarise import FIELDS as SUMMARY_FIELDS
from hitherto_extraction.pipeline.summarise import merge_summary
from hitherto_extraction.pipeline.trust import least_trusted
from hitherto_extraction.storage.statements import NewStatement
from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.models import NEUTRAL_TITLE, OUTCOMES


def begins(item: NewItem, evidence: Evidence) -> datetime:
    """Since when a new statement holds.

    A model's date counts only for the past: a plan does not hold yet.
    """
    said = item.valid_from
    return said if said is not None and said < evidence.said_at else evidence.said_at


def words_of(item: NewItem, evidence: Evidence, *, suspect: bool = False) -> dict[str, Any]:
    """The words of an item, as JSON; `suspect` if it reads as an instruction to the assistant."""
    return {
        "content": item.content,
        "detail": item.detail,
        "importance": item.importance,
        "confidence": item.confidence,
        "tags": list(item.tags),
        "keywords": list(item.keywords),
        "questions": list(item.questions),
        "entities": [[entity.name, entity.type] for entity in item.entities],
        "context": dict(item.context),
        "valid_from": begins(item, evidence).isoformat(),
        "suspect": suspect,
    }


def document_of(*objects: Mapping[str, Any]) -> UUID | None:
    """The document that metadata or context names as `document_id`."""
    for each in objects:
        name = each.get("document_id")
        if isinstance(name, str) and (found := parse_uuid(name)) is not None:
            return found
    return None


def statements_of(plan: Plan, occasion: Occasion) -> list[NewStatement]:
    """Every statement of a plan about memories."""
    created = [
        NewStatement(
            "said",
            1,
            True,
            made.evidence.origin,
            made.evidence.said_at,
            _words_of_creation(made, occasion),
            made.memory_id,
        )
        for made in plan.creations
    ]
    challenged = [
        NewStatement(
            "challenged",
            change.after.version,
            True,
            change.after.origin,
            change.after.said_at,
            {"challenges": [str(by) for m, by in plan.challenges if m == change.after.memory_id]},
            change.after.memory_id,
        )
        for change in plan.rewrites
        if change.action == "quarantined"
    ]
    forgotten = [
        _closed(change, "user", occasion.at)
        for change in plan.rewrites
        if change.action == "forgotten"
    ]
    closed = [
        _closed(change, change.before.origin, change.after.valid_to or occasion.at)
        for change in plan.closures
    ]
    return [
        replace(
            each,
            conversation_id=occasion.conversation_id,
            document_id=document_of(occasion.metadata, each.said.get("context", {})),
            job_id=occasion.job_id,
        )
        for each in (*created, *_linked(plan), *challenged, *forgotten, *closed)
    ]


def _closed(change: Rewrite, origin: str, at: datetime) -> NewStatement:
    by = change.superseded_by
    said = {
        "status": change.after.status,
        "valid_to": at.isoformat(),
        "superseded_by": None if by is None else str(by),
    }
    return NewStatement(
        "closed", change.after.version, True, origin, at, said, change.after.memory_id
    )


def _linked(plan: Plan) -> list[NewStatement]:
    """What was said of known memories, each with those that it may replace by these words."""
    older = defaultdict[UUID | None, list[str]](list)
    for newer, replaced in plan.may_replace:
        older[newer].append(str(replaced))
    return [
        replace(each, said={**each.said, "may_replace": older[each.memory_id]})
        if each.action == "said" and each.memory_id in older
        else each
        for each in plan.said
    ]


def _words_of_creation(made: Creation, occasion: Occasion) -> dict[str, Any]:
    expires_at = made.item.expires_at or occasion.expires_at
    return {
        **words_of(made.item, made.evidence),
        "valid_from": made.valid_from.isoformat(),
        "status": made.status,
        "suspect": made.status == "quarantined" and not made.challenges,
        "challenges": [str(each) for each in made.challenges],
        "may_replace": [str(each) for each in made.may_replace],
        "ended_by": [[str(by), at.isoformat()] for by, at in made.ended_by],
        "metadata": dict(occasion.metadata),
        "expires_at": expires_at.isoformat() if expires_at else None,
        "sensitive": occasion.marked or made.sensitive,
    }


def of_profile(
    said: Sequence[tuple[ValueChange, Evidence]], version: int, *, made_version: bool
) -> NewStatement:
    """What a reply says about the profile, value by value."""
    return NewStatement(
        "patched",
        version,
        made_version,
        least_trusted(evidence.origin for _, evidence in said),
        max(evidence.said_at for _, evidence in said),
        {"changes": [change.as_json() for change, _ in said]},
        subject="profile",
    )


def of_summary(given: Mapping[str, Any] | None, witnesses: Witnesses, done_to: int) -> NewStatement:
    """What a reply says about its conversation, without defaults for missing fields."""
    summary = given or {}
    words = _filled(merge_summary(None, summary, first_user_words=""), SUMMARY_FIELDS)
    if words.get("title") == NEUTRAL_TITLE:
        del words["title"]
    outcome = summary.get("outcome")
    if not (isinstance(outcome, str) and outcome.strip().lower() in OUTCOMES):
        words.pop("outcome", None)
    said_at = max(message.said_at for message in witnesses.messages)
    return NewStatement("concluded", done_to, False, "user", said_at, words, subject="summary")


def _filled(held: object, names: Sequence[str]) -> dict[str, Any]:
    """The fields that are not empty, as JSON."""
    found = ((name, getattr(held, name)) for name in names)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in found if v}
