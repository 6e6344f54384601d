"""The meanings of rules: the memories they write, whatever the language.

The rules are in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_NAME = {"facts.personal.name": "{name}"}
_HOME = {"facts.personal.location": "{place}"}
_TRADE = {"facts.personal.occupation": "{job}"}
_WORK = _TRADE | {"facts.personal.company": "{company}"}
_OPEN = {"facts.technical_context.challenges[]": "{x}"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is recorded about a clause, besides its sentence.

    Attributes:
        type: Lower-case name of the memory type.
        importance: 0..1.
        tags: In lower_snake_case.
        slots: Name of a property with a single value, to the template of its value: two statements
            with different values contradict each other.
        profile: Dotted path of a profile field to the template of its value. A path that ends in
            `[]` appends, one that ends in `?` is only a guess for an empty field.
        achieves: Whether it may show that a known goal was achieved.
        only: It counts only if it achieves a known goal (`goal`) or repeats what is known
            (`known`); empty: always.
        technologies: Whether the technologies it names become profile fields.
        capitals: Whether only capitals distinguish it from another meaning ("I am Hungry").
    """

    type: str
    importance: float
    tags: tuple[str, ...]
    slots: Mapping[str, str] = field(default_factory=dict)
    profile: Mapping[str, str] = field(default_factory=dict)
    achieves: bool = False
    only: str = ""
    technologies: bool = False
    capitals: bool = False
    confidence: str = "high"


def _about(tags: str) -> tuple[str, ...]:
    return ("personal_info", *tags.split())


MEANINGS = {
    "name": Meaning("fact", 0.9, _about("name"), {"name": "{name}"}, _NAME),
    "introduction": Meaning(
        "fact",
        0.9,
        _about("name"),
        {"name": "{name}"},
        _NAME,
        capitals=True,
        confidence="medium",
    ),
    "home": Meaning("fact", 0.8, _about("residence"), {"home": "{place}"}, _HOME),
    "move": Meaning("fact", 0.8, _about("residence"), {"home": "{place}"}, _HOME, achieves=True),
    "origin": Meaning("personal", 0.6, _about("origin"), {"origin": "{place}"}),
    "childhood": Meaning("personal", 0.5, _about("origin")),
    "past": Meaning("personal", 0.4, _about("past")),
    "job": Meaning(
        "fact", 0.8, _about("work"), {"occupation": "{job}", "employer": "{company}"}, _WORK
    ),
    "job_there": Meaning(
        "fact",
        0.8,
        _about("work"),
        {"occupation": "{job}"},
        _TRADE | {"facts.personal.location?": "{place}"},
        capitals=True,
    ),
    "new_job": Meaning(
        "fact",
        0.8,
        _about("work"),
        {"occupation": "{job}", "employer": "{company}"},
        _WORK,
        achieves=True,
    ),
    "studies": Meaning("fact", 0.7, _about("education")),
    "answers": Meaning("preference", 0.7, ("preference", "answer_style")),
    # What holds for some questions says nothing about the length of all answers.
    "instruction": Meaning("preference", 0.7, ("answer_style",)),
    "wish": Meaning("preference", 0.5, ("preference", "answer_style"), only="known"),
    "feedback": Meaning("feedback", 0.5, ("feedback",)),
    "favourite": Meaning("preference", 0.6, ("preference",), {"favourite:{thing}": "{x}"}),
    "preference": Meaning("preference", 0.6, ("preference",)),
    "like": Meaning("preference", 0.6, ("preference", "like"), {"taste:{x}": "like"}),
    "dislike": Meaning("preference", 0.6, ("preference", "dislike"), {"taste:{x}": "dislike"}),
    "decision": Meaning("decision", 0.7, ("decision",)),
    "goal": Meaning("goal", 0.7, ("goal",)),
    "achievement": Meaning("fact", 0.7, ("achievement",), achieves=True),
    "deed": Meaning("fact", 0.6, ("achievement",), achieves=True, only="goal"),
    "problem": Meaning("problem", 0.5, ("problem",), profile=_OPEN),
    "question": Meaning("question", 0.3, ("question",), confidence="medium"),
    "learning": Meaning("learning", 0.5, ("learning",)),
    "learned": Meaning("learning", 0.5, ("learning",), achieves=True),
    "project": Meaning("context", 0.6, ("project",), technologies=True),
    "appointment": Meaning("context", 0.6, ("schedule",)),
    "journey": Meaning("context", 0.6, ("travel", "schedule")),
    "tools": Meaning("fact", 0.6, ("tools",), technologies=True),
    "experience": Meaning("fact", 0.6, ("work",), technologies=True),
    "speaks": Meaning("fact", 0.6, ("language",)),
    "allergy": Meaning("fact", 0.9, ("health", "food", "allergy")),
    "condition": Meaning("fact", 0.9, ("health",)),
    "diet": Meaning("fact", 0.8, ("health", "food"), {"diet": "{x}"}),
    "avoids": Meaning("fact", 0.8, ("health", "food"), {"avoided:{x}": "{verb}"}),
    "family": Meaning("personal", 0.6, ("family",)),
    "wedding": Meaning("personal", 0.7, ("family",), achieves=True),
    "birthday": Meaning("personal", 0.8, _about("birthday"), {"birthday": "{x}"}),
    "age": Meaning("personal", 0.7, _about("age"), {"age": "{x}"}),
    "hobby": Meaning("personal", 0.5, ("hobby",)),
}
"""By the name that stands first in a rule."""
