"""The result of a job so far, in the form of `JobResult`; passed from call to call of one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hitherto_extraction.pipeline.caps import Changes
from hitherto_extraction.pipeline.operations import Plan, Refused
from hitherto_extraction.prices import Charge
from hitherto_shared.database.arrays import fields_of

REFINED = "refined"
"""The count of updates made by a model."""
FORGOTTEN = "forgotten"
"""The count of memories that the user asked to forget; also the action that does."""
SECRETS_REDACTED = "secrets_redacted"
"""The count of secrets that were redacted in what the job read, before it was stored."""
MAX_REFUSALS = 100
"""Maximum number of refusals that are kept with a job."""


@dataclass(frozen=True, slots=True)
class Result:
    """Sums over the calls of a job; `counts` holds what has no field of its own."""

    memories_created: int = 0
    memories_updated: int = 0
    memories_contradicted: int = 0
    goals_achieved: int = 0
    profile_version: int = 0
    dropped_items: int = 0
    model: str = ""
    extractor: str = ""
    prompt_version: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    refusals: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Result:
        """The result as an earlier call of the job left it."""
        return cls(**stored)

    def stored(self) -> dict[str, Any]:
        """The result in the form stored with the job."""
        return fields_of(self)

    def with_plan(self, plan: Plan, dropped: int, named: Sequence[Refused] = ()) -> Result:
        """Add what a plan writes and what had to be dropped, some of it `named`."""
        late = sum(made.status == "contradicted" for made in plan.creations)
        unsaid = sum(made.status == FORGOTTEN for made in plan.creations)
        contradicted = sum(closure.action == "contradicted" for closure in plan.closures)
        refused = self.refusing([*named, *plan.refusals], more=dropped - len(named))
        return replace(
            refused,
            memories_created=self.memories_created + len(plan.creations) - unsaid,
            memories_updated=self.memories_updated
            + sum(change.action != FORGOTTEN for change in plan.rewrites),
            memories_contradicted=self.memories_contradicted + contradicted + late,
            goals_achieved=self.goals_achieved
            + sum(closure.action == "achieved" for closure in plan.closures),
            counts=_added(
                refused.counts,
                {
                    "confirmed": len(plan.confirmed),
                    "merged": sum(change.action == "merged" for change in plan.rewrites),
                    REFINED: sum(change.action == "updated" for change in plan.rewrites),
                    FORGOTTEN: sum(change.action == FORGOTTEN for change in plan.rewrites),
                    "forgotten_new": unsaid,
                    "repeated_in_reply": plan.repeated,
                    # Refused, as far as there are any.
                    "kept_forgotten": 0,
                    "quarantined": sum(made.status == "quarantined" for made in plan.creations)
                    + sum(change.action == "quarantined" for change in plan.rewrites),
                    **({"importance_bounded": plan.bounded} if plan.bounded else {}),
                },
            ),
        )

    @property
    def changes(self) -> Changes:
        """The model's changes of known memories in this job."""
        return Changes(
            closed=self.memories_contradicted + self.goals_achieved,
            updated=self.counts.get(REFINED, 0),
            forgotten=self.counts.get(FORGOTTEN, 0),
        )

    def refusing_profile(self, refused: Sequence[Refused], dropped: int = 0) -> Result:
        """Add refused values of a profile, and the number of those that did not fit."""
        values = len(refused) + dropped
        counts = {"refused_profile": values} if values else {}
        return self.refusing(refused, more=dropped).with_counts(counts)

    def refusing(self, refused: Sequence[Refused], *, more: int = 0) -> Result:
        """Add changes that are not made, and the number of items dropped without a name."""
        return replace(
            self,
            dropped_items=self.dropped_items + len(refused) + more,
            counts=_added(self.counts, Counter(each.reason for each in refused)),
            refusals=[*self.refusals, *map(_as_json, refused)][:MAX_REFUSALS],
        )

    def with_counts(self, counts: Mapping[str, int]) -> Result:
        """Add counts of what has no field of its own."""
        return replace(self, counts=_added(self.counts, counts))

    def with_charges(self, charges: list[Charge]) -> Result:
        """Add the usage of models."""
        usage: dict[str, float] = {}
        for item in charges:
            if item.stage == "embedding":
                new = {"embedding_calls": item.calls, "embedding_tokens": item.input_tokens}
            else:
                new = {
                    "llm_calls": item.calls,
                    "input_tokens": item.input_tokens,
                    "output_tokens": item.output_tokens,
                }
            usage = _added(usage, {**new, "cost_usd": float(item.cost_usd)})
        return replace(self, usage=_added(self.usage, usage))


def _as_json(refusal: Refused) -> dict[str, Any]:
    return {**asdict(refusal), "memory_id": str(refusal.memory_id or "")}


def _added(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {key: old.get(key, 0) + new.get(key, 0) for key in {**old, **new}}
