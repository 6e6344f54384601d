"""The result of a job so far, in the form of `JobResult`; passed from call to call of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hitherto_extraction.pipeline.caps import Changes
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.prices import Charge

REFINED = "refined"
"""The count of updates made by a model."""


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

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Result:
        """The result as an earlier call of the job left it."""
        return cls(**stored)

    def stored(self) -> dict[str, Any]:
        """The result in the form stored with the job."""
        return asdict(self)

    def with_plan(self, plan: Plan, dropped: int) -> Result:
        """Add what a plan writes and what had to be dropped."""
        late = sum(made.status == "contradicted" for made in plan.creations)
        shortened = sum(closure.instead_of is not None for closure in plan.closures)
        contradicted = sum(closure.status == "contradicted" for closure in plan.closures)
        return replace(
            self,
            memories_created=self.memories_created + len(plan.creations),
            memories_updated=self.memories_updated + len(plan.rewrites) + shortened,
            memories_contradicted=self.memories_contradicted + contradicted - shortened + late,
            goals_achieved=self.goals_achieved
            + sum(closure.status == "achieved" for closure in plan.closures),
            dropped_items=self.dropped_items + dropped + plan.dropped,
            counts=_added(
                self.counts,
                {
                    "confirmed": len(plan.confirmed),
                    "merged": sum(change.action == "merged" for change in plan.rewrites),
                    REFINED: sum(change.action == "updated" for change in plan.rewrites),
                    "repeated_in_reply": plan.repeated,
                    "kept_forgotten": plan.forgotten_again,
                    "quarantined": sum(made.status == "quarantined" for made in plan.creations)
                    + sum(change.action == "quarantined" for change in plan.rewrites),
                    **+plan.refused,
                },
            ),
        )

    @property
    def changes(self) -> Changes:
        """The model's changes of known memories in this job."""
        return Changes(
            closed=self.memories_contradicted + self.goals_achieved,
            updated=self.counts.get(REFINED, 0),
        )

    def refusing_profile(self, values: int) -> Result:
        """Add refused values of a profile."""
        refused = {"refused_profile": values} if values else {}
        return replace(
            self, dropped_items=self.dropped_items + values, counts=_added(self.counts, refused)
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


def _added(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {key: old.get(key, 0) + new.get(key, 0) for key in {**old, **new}}
