"""Removes the parts of a profile patch that its messages do not support.

An assistant receives the profile as facts about the user, without a review. A patch must therefore
add nothing that was not said: the messages that it names contain every word and number of a value,
up to inflection and in any script. A summary and the intents are in the model's own words: there
each clause takes at least half of its words from the messages or the present profile, and all of
its names and numbers. A boolean is judged by its key, and a key of many words is a statement
itself.

Refused values are removed from the patch, as if they had never been said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from hitherto_extraction.pipeline.free_json import ABSENT, Path, value_at
from hitherto_extraction.pipeline.guards.refinement import unsupported
from hitherto_extraction.pipeline.guards.subjects import USER, names, small_words, subject
from hitherto_extraction.pipeline.guards.support import JoinedWords, content, unspaced
from hitherto_extraction.pipeline.guards.tokens import NUMBER, clauses, tokenise
from hitherto_extraction.pipeline.profile import FIELDS, OTHER_NAMES
from hitherto_shared.models import Profile
from hitherto_shared.text.normalise import nfc
from hitherto_shared.vocabulary.opposites import markers

_IN_OWN_WORDS = ("summary", "frequent_intents")
_KEY_WORDS = 4
"""Number of words above which a key is a statement itself."""
_MAX_SUPPORTED_CHARS = 2_000
"""Maximum characters of a summary or intent: it is one or two sentences."""
_LONGEST_KNOWN = 8_000
"""Maximum characters of a profile that a summary is compared with."""
_ABOUT_ASKING = frozenset(
    "ask asks asking question questions help request requests advice support explain explaining "
    "explanation explanations information info hỏi giúp".split()
)
_DENYING_KEY = re.compile(
    "dislike|hate|avoid|allerg|intoleran|exclu|never|without|not_|no_|challenge|problem|weak|"
    "difficult|ghét|tránh|kỵ|dị_ứng|khó",
    re.IGNORECASE,
)
"""Keys for what a person does not do or cannot do, which a message states in a denial."""
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}
_WORD_END = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_NOBODY = JoinedWords([])


def supported(
    patch: Mapping[str, Any], profile: Profile, said: JoinedWords
) -> tuple[dict[str, Any], int]:
    """The patch without unsupported values.

    Args:
        patch: Free-form JSON by the fields of a profile, unchecked.
        profile: The present profile. Values that it already has are not additions.
        said: The messages behind the patch.

    Returns:
        The patch, and how many values were refused. A value that the profile already has and that
        was not repeated is left out as well, and is not counted.
    """
    reading = _Reading(profile, said)
    kept = {name: reading.pruned((name,), value) for name, value in patch.items()}
    return {name: value for name, value in kept.items() if value is not ABSENT}, reading.refused


class _Reading:
    """One patch compared with the messages behind it."""

    def __init__(self, profile: Profile, said: JoinedWords) -> None:
        self.refused = 0
        self._said = said
        self._held = {name: getattr(profile, name) for name in FIELDS}
        self._known = "\n".join(str(leaf) for _, leaf in _placed(self._held, ()))[:_LONGEST_KNOWN]

    def pruned(self, path: Path, value: Any) -> Any:
        """A value without its unsupported parts; `ABSENT` if nothing is left."""
        path = (OTHER_NAMES[path],) if path in OTHER_NAMES else path
        held = value_at(self._held, path)
        if isinstance(value, Mapping):
            return self._object(path, value)
        if isinstance(value, list | tuple):
            return self._list(path, value, held)
        if value is None or value == "" or self._backed(path, value, held):
            return value
        # It was not repeated; the stored value stays unchanged.
        same = held == value or (isinstance(held, list | tuple) and value in held)
        self.refused += not same
        return ABSENT

    def _object(self, path: Path, value: Mapping[Any, Any]) -> Any:
        found: dict[Any, Any] = {}
        for key, inner in value.items():
            name = nfc(key).strip() if isinstance(key, str) else str(key)
            if not self._is_name(name):
                self.refused += 1
                continue
            kept = self.pruned((*path, name), inner)
            if kept is not ABSENT:
                found[key] = kept
        return found if found or not value else ABSENT

    def _list(self, path: Path, items: list[Any] | tuple[Any, ...], held: Any) -> Any:
        known = held if isinstance(held, list | tuple) else ()
        found = []
        for item in items:
            if all(self._backed(where, leaf, None) for where, leaf in _placed(item, path)):
                found.append(item)
            else:
                self.refused += item not in known
        return found if found or not items else ABSENT

    def _is_name(self, key: str) -> bool:
        """Whether a key only names what its value says, or else was said itself."""
        words = _words(key)
        return len(words) <= _KEY_WORDS or not unsupported(" ".join(words), "", self._said)

    def _backed(self, path: Path, value: Any, held: Any) -> bool:
        """Whether the messages contain a single value."""
        if isinstance(value, str) and (truth := _TRUTHS.get(value.strip().casefold())) is not None:
            value = truth
        if isinstance(value, bool):
            words = tokenise(" ".join(_words(path[-1])))
            said = not self._said.lacking(words)
            return said and not (value and self._said.only_denied(words))
        if isinstance(value, int | float):
            return not unsupported(f"{value:.15g}", "", self._said)
        if not isinstance(value, str):
            return True  # Of no kind that a profile takes: the merge drops and counts it.
        if path[0] in _IN_OWN_WORDS:
            return self._is_supported(value)
        if unsupported(value, _grown_from(held, value), self._said):
            return False
        tokens = tokenise(value)
        if not (content(tokens) or unspaced(tokens) or any(t.kind == NUMBER for t in tokens)):
            return self._said.quotes(value)
        denies = not {"not", "no longer"}.isdisjoint(_markers(value))
        return (
            denies
            or bool(_DENYING_KEY.search("_".join(path)))
            or not self._said.only_denied(tokens)
        )

    def _is_supported(self, text: str) -> bool:
        """Whether the messages support a text in the model's own words, clause by clause."""
        if len(text) > _MAX_SUPPORTED_CHARS:
            return False
        tokens = tokenise(text)
        people = names(tokens, small_words(tokens), loose=False)
        if unsupported(" ".join(chain.from_iterable(people)), self._known, self._said):
            return False
        parts = [part for each in clauses(text) if (part := _without_asking(each))]
        new = [part for part in parts if unsupported(part, self._known, _NOBODY)]
        if not all(map(self._rests, new)):
            return False
        return bool(new) or self._said.holds_half(" ".join(parts))

    def _rests(self, clause: str) -> bool:
        whom, _ = subject(tokenise(clause), loose=False)
        named = " ".join(word for word in whom or () if word != USER)
        return not unsupported(named, self._known, self._said) and self._said.bears_out(
            clause, self._known
        )


def _placed(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The single values of free-form JSON, each with its path of keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _placed(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _placed(inner, path)
    elif value is not None and value != "":
        yield path, value


def _words(key: str) -> list[str]:
    """The words of a key, written in snake_case, in camelCase or apart."""
    return [word for word in _WORD_END.split(key) if word]


def _grown_from(held: Any, value: str) -> str:
    """The stored value, if a value extends it; one that reduces or denies it was said itself."""
    if not isinstance(held, str) or not unsupported(value, held, _NOBODY):
        return ""
    return held if _markers(held) == _markers(value) else ""


def _markers(text: str) -> dict[str, int]:
    return markers([token.lower for token in tokenise(text)])


def _without_asking(clause: str) -> str:
    """A clause without words that only say that something is requested."""
    return " ".join(word for word in clause.split() if word.casefold() not in _ABOUT_ASKING)
