"""What a rule is: one row of a language's table, and how a row writes a memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a message, ready to be matched.

    Attributes:
        text: The clause with contractions spelt out and relative dates taken off.
        cased: Whether the writer uses capitals, so that they tell a name from a common noun.
        greeted: Whether the clause follows a greeting, as an introduction does.
        asked: Whether the clause is part of a question; only requests are read from those.
    """

    text: str
    cased: bool = True
    greeted: bool = False
    asked: bool = False


Guard = Callable[[Mapping[str, str], Clause], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern over grammar, and the memory it makes.

    Attributes:
        name: Unique in its table.
        pattern: Matched from the start of a clause. Its group names are used below.
        type: Lower-case name of the memory type.
        write: Third-person sentence. `{group}` is filled in, `{group:s}` is a verb in the third
            person, `[part]` is left out when a group in it is empty, `{s}` is the subject.
        importance: 0..1.
        confidence: `high`, `medium` or `low`.
        tags: lower_snake_case.
        profile: Dotted path of a profile field to template. A path ending in
            `[]` appends, one ending in `?` is only a guess for a field that is still empty.
        attributes: Name of a single-valued attribute to template of its value. Two statements
            that give one attribute different values contradict each other.
        entities: Group to entity type.
        guard: Refuses a match the pattern cannot rule out.
        technologies: Whether named technologies become profile fields.
        style: Whether this may say how answers should look.
        achieves: Whether this may show that a known goal was reached.
        needs_goal: Whether the statement matters only when it reaches a known goal.
        request: Whether it is read in a question too ("could you always…?").
        repeats: Whether the statement matters only when it says again what is known: one wish
            about one answer is no preference, the same wish again is.
    """

    name: str
    pattern: re.Pattern[str]
    type: str
    write: str
    importance: float = 0.5
    confidence: str = "high"
    tags: tuple[str, ...] = ()
    profile: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    entities: Mapping[str, str] = field(default_factory=dict)
    guard: Guard | None = None
    technologies: bool = False
    style: bool = False
    achieves: bool = False
    needs_goal: bool = False
    request: bool = False
    repeats: bool = False


def pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern that starts at the start of a clause and ignores case.

    A space stands for any run of blanks.
    """
    return re.compile(r"^" + text.replace(" ", r"\s+"), re.IGNORECASE)


def words(group: str, stops: str, most: int) -> str:
    """A named group of up to `most` words that ends before any of `stops` (an alternation)."""
    # Lower case only: a stop word with a capital is part of a name.
    word = rf"(?!(?-i:{stops})(?![\w'’-]))[^\s,;:()]+"
    return rf"(?P<{group}>{word}(?:\s+{word}){{0,{most - 1}}})"


_PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w))?\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def fill(
    template: str, groups: Mapping[str, str], third_person: Callable[[str], str] | None = None
) -> str:
    """Fill a template of a rule. A placeholder without a value is empty."""

    def optional(match: re.Match[str]) -> str:
        names = [found.group(1) for found in _PLACEHOLDER.finditer(match.group(1))]
        return match.group(1) if all(groups.get(name) for name in names) else ""

    def value(match: re.Match[str]) -> str:
        text = groups.get(match.group(1), "")
        return third_person(text) if third_person and match.group(2) == "s" else text

    return _PLACEHOLDER.sub(value, _OPTIONAL.sub(optional, template))


def starts_like_name(text: str, cased: bool) -> bool:
    """Whether `text` reads as a proper name; without capitals there is no telling, so yes."""
    bare = re.sub(r"^(?:the|la|el|le|los|las)\s+", "", text, flags=re.IGNORECASE)
    return bool(bare) and (not cased or not bare[0].islower())


def proper(text: str, cased: bool) -> str:
    """Give a name its capitals where the writer used none, or nothing else."""
    if cased and not (text.isupper() and len(text) > 4):
        return text
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split())
