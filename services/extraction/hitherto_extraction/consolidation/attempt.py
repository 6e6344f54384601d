"""One attempt of a consolidation job: its progress and its result so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hitherto_extraction.consolidation.merge_model import MergeProposals
from hitherto_extraction.consolidation.merging import Merge
from hitherto_extraction.consolidation.tag_review import ConsolidationTarget
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage.consolidation import Member
from hitherto_shared.model_api import ModelError

_PATIENCE = 3
"""Number of groups without an answer, with none answered, after which the model itself is at
fault."""
COUNTS = dict.fromkeys(
    ("groups", "merged", "created", "superseded", "skipped_unchanged", "dropped"), 0
)
"""The counts of every result."""


@dataclass(slots=True)
class ConsolidationAttempt:
    """One attempt of a job: its progress, and the groups that the model could not answer."""

    held: Claim
    wanted: ConsolidationTarget
    result: Result
    answered: int = 0
    failed: int = 0
    why: ModelError | None = None

    def not_answered(self, error: ModelError) -> None:
        """Record that a group got no answer; raises if no group gets one."""
        self.failed += 1
        self.why = error
        if not self.answered and self.failed >= _PATIENCE:
            raise error


def result_after(
    run: ConsolidationAttempt, answered: MergeProposals, written: Sequence[tuple[Merge, Member]]
) -> Result:
    """The job's result once the `written` ones of the proposed merges are committed."""
    late = len(answered.merges) - len(written)
    counts = {
        "groups": 1,
        "merged": int(bool(written)),
        "created": len(written),
        "superseded": sum(len(merge.originals) for merge, _ in written),
        "dropped": answered.dropped,
        **({"refused_unfaithful": answered.refused} if answered.refused else {}),
        **({"skipped_changed": late} if late else {}),
    }
    result = run.result.with_counts(counts).with_charges(list(answered.charges))
    return replace(
        result,
        memories_created=result.memories_created + len(written),
        dropped_items=result.dropped_items + answered.dropped,
        model=answered.answered_by,
    )
