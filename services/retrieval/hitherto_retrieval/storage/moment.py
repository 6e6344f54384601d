"""The state of a user's memories at another time, as part of statements.

There are two times. `known_at` selects for each memory the version that was current then. `as_of`
selects, among what is known, what was true then: validity and its end are evaluated at that time.
Either may be given alone.

Memories that are forgotten now are left out at every time, with the parts from which a forgotten
memory was merged: a user who takes something back means all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Moment:
    """The point in time that a read refers to.

    Attributes:
        as_of: Selects what was true then; None selects everything known, whenever it held.
        known_at: Selects what was known then; None selects everything known by now.
    """

    as_of: datetime | None = None
    known_at: datetime | None = None

    @property
    def present(self) -> bool:
        """Whether it is the present, for which there are faster statements."""
        return self.as_of is None and self.known_at is None

    def parameters(self) -> dict[str, Any]:
        """The moment as statement parameters."""
        return {"as_of": self.as_of, "known_at": self.known_at}


PRESENT = Moment()
