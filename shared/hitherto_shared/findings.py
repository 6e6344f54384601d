"""What an examination of an installation has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "fault"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The outcome of one check.

    Attributes:
        check: What was checked, such as `chat`.
        state: `note` works, but perhaps not as intended.
        told: What was found. It names no secret.
        remedy: What to set or to run; empty if nothing.
    """

    check: str
    state: State
    told: str
    remedy: str = ""
