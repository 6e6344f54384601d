"""The general memories of the block for a question: the first few that nothing else says."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from hitherto_retrieval.render.budget import Entry, Section
from hitherto_retrieval.render.evidence import AnsweringLines
from hitherto_retrieval.render.material import Material, is_in
from hitherto_shared.models import Memory

FIRST_MEMORIES = 5


class PinnedMemories(Section):
    """The first general memories that neither the profile nor the answers say.

    They are compared one by one, because a block has few of them. Their room is reserved before the
    answers are printed. What was left to those and found no room among them is offered here.
    """

    __slots__ = ("_answers", "_entry", "_known", "_left", "_lost")

    def __init__(
        self,
        known: Material,
        answers: Section,
        entry: Callable[[Memory], Entry],
        heading: str = "",
    ) -> None:
        super().__init__([], heading)
        self._known = known
        self._answers = answers if isinstance(answers, AnsweringLines) else None
        self._entry = entry
        self._lost: set[UUID] = set()
        self._choose()

    def amend(self) -> bool:
        """See `Section.amend`."""
        if self._answers is None or not self.copies:
            return False
        lost = {one.memory_id for one in self._left if not self._answers.prints(one)}
        if lost:
            self._answers.leave_out(lost)
            self._lost |= lost
            self._choose()
        return bool(lost)

    def _choose(self) -> None:
        self._left: list[Memory] = []
        chosen: list[Entry] = []
        for one in self._known.memories:
            if len(chosen) == FIRST_MEMORIES:
                break
            if is_in(self._known.lines, one):
                continue
            if self._answers and one.memory_id not in self._lost and self._answers.says(one):
                self._left.append(one)
            elif (entry := self._entry(one)).value:
                chosen.append(entry)
        self.entries = chosen
