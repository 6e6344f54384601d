"""What a run saw of one row: nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.extraction.rows import ConversationCase, Existing

CURRENT = ("active", "achieved")


@dataclass(frozen=True, slots=True)
class ObservedMemory:
    """A memory as the services returned it."""

    id: str
    type: str
    content: str
    importance: float
    status: str
    version: int


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """A memory that was there before: what was wanted, and how it was before and after."""

    wanted: Existing
    before: ObservedMemory
    after: ObservedMemory


@dataclass(frozen=True, slots=True)
class TokenSpending:
    """Tokens of language model calls; `estimated` if no model was asked."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    """At the prices of the model that was used; 0 if nothing was spent."""
    usd_reference: float = 0.0
    """What the tokens cost at the reference model's prices."""
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One row after its job.

    Attributes:
        row: The row.
        new: The memories that the job made, whatever their status.
        fates: The memories that were there before.
        profile: The values of the user's profile, as `path: value`.
        spent: What it cost.
        error: Why the job did not succeed; empty if it did.
    """

    row: ConversationCase
    new: Sequence[ObservedMemory] = ()
    fates: Sequence[MemoryOutcome] = ()
    profile: Sequence[str] = ()
    spent: TokenSpending = field(default_factory=TokenSpending)
    error: str = ""

    @property
    def learnt(self) -> list[ObservedMemory]:
        """The new memories that count: current ones, not quarantined or closed again."""
        return [memory for memory in self.new if memory.status in CURRENT]

    @property
    def texts(self) -> list[str]:
        """All texts whose nearness may matter."""
        return list(
            dict.fromkeys(
                [
                    *(memory.content for memory in self.new),
                    *(fate.after.content for fate in self.fates),
                    *(item.says for item in self.row.expected if item.says),
                    *(message.content for message in self.row.transcript),
                ]
            )
        )
