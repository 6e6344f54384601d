"""Finds the JSON object in the text of a model's reply, whatever surrounds it.

A complete answer in a wrapper is an answer: after reasoning (`<think>…</think>`, the channels of
gpt-oss), before the mark of an end of turn, in a fence, in prose, in a list, under one key,
or as a JSON string. Tried are the whole text, what follows a mark, and the one object in the rest
that has a known key. Reasoning may hold drafts, so nothing inside it counts. Every step is linear.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from hitherto_shared import long_json

_INVISIBLE = " \t\r\n\f\v\ufeff\u200b\u200c\u200d\u2060"
_MARK = re.compile(r"<[^<>\s\"{}\[\]]{1,40}>|\[/?[A-Z_]{2,20}\]|◁[^◁▷\s]{1,20}▷")
"""A tag or a token of a chat template: `</think>`, `<|im_end|>`, `[/THINK]`."""
_LONGEST_MARK = 48
_MARKS_TRIED = 2
"""Marks from each end of the text after which an answer is looked for."""
_CLOSING_TAG = re.compile(r"</([A-Za-z][\w-]{0,30})>|\[/([A-Z_]{2,20})\]|◁/([^◁▷\s]{1,20})▷")
_OPENING_TAG = re.compile(r"(?:<[A-Za-z][\w-]{0,30}>|\[[A-Z_]{2,20}\]|◁[^◁▷/\s]{1,20}▷)")
# A tag around the answer, and not around the way to it.
_ANSWER_TAG = re.compile(r"<(?:answer|final|json|output|response|result)>", re.IGNORECASE)
_FENCES = ("```", "~~~")
_LABEL = re.compile(r"[A-Za-z0-9_+-]{0,20}[ \t]*\n?")
# A text in quotation marks, also an unfinished one, or a brace.
_TEXT_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}]', re.DOTALL)
_BEGINS_OBJECT = re.compile(r"\{\s*+[\"}]")
# What some models add to JSON: a comma after the last item, and comments.
_TEXT_OR_ADDED = re.compile(
    r'("(?:[^"\\]|\\.)*+(?:"|\Z))|,(?=\s*+[}\]])|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)',
    re.DOTALL,
)
_DEEPEST_WRAPPER = 3
_MOST_KEYS_OF_A_WRAPPER = 8
_SCANS = 4
"""How often the text may be read in search of an object, in its length."""


class UnusableAnswer(Exception):
    """The reply is unusable: prose, an empty object, broken JSON, or no item of a known form."""


class CutOffAnswer(UnusableAnswer):
    """The reply ends inside its JSON, or inside its reasoning."""


def read_object(text: str, keys: Collection[str]) -> tuple[dict[str, Any], bool]:
    """The JSON object of a reply, and whether it stood in a wrapper.

    An object in a wrapper is to count only if it says something: an empty list inside prose does
    not mean that there is nothing. Reasoning before it, invisible characters and marks of the end
    are no wrapper.

    An answer has at least one of `keys`; an object that is the whole text is returned also without.

    Raises:
        CutOffAnswer: The text ends inside an object.
        UnusableAnswer: There is no object.
    """
    whole = _without_ends(text)
    found: tuple[dict[str, Any], bool] | None = None
    strange: dict[str, Any] | None = None
    parsed = False
    for start in _beginnings(whole):
        value = _whole_json(whole[start:])
        if value is _NOTHING:
            continue
        parsed = True
        found = _answer_in(value, keys)
        if found is not None:
            return found
        if isinstance(value, dict):
            strange = value
    rest = _without_reasoning(whole)
    if rest is None:
        raise CutOffAnswer("the reply ends inside its reasoning")
    found = None if parsed else _in_prose(rest, keys)
    if found is not None:
        return found
    if strange is not None:
        return strange, False
    raise UnusableAnswer("the reply is not a JSON object" if parsed else "the reply is not JSON")


def only_reasons(text: str) -> bool:
    """Whether a reply holds nothing but reasoning, finished or not: no room was left to answer."""
    whole = _without_ends(text)
    return not whole or not (_without_reasoning(whole) or "").strip(_INVISIBLE)


_NOTHING = object()
"""What is no JSON."""


def _without_ends(text: str) -> str:
    """The text without invisible characters around it and marks after it."""
    text = text.strip(_INVISIBLE)
    end = len(text)
    while end and text[end - 1] in ">]▷":
        start = max(text.rfind(sign, max(0, end - _LONGEST_MARK), end) for sign in "<[◁")
        if start < 0 or not _MARK.fullmatch(text, start, end):
            break
        end = start
        while end and text[end - 1] in _INVISIBLE:
            end -= 1
    return text[:end]


def _beginnings(text: str) -> list[int]:
    """Where an answer may begin that ends with the text: at its start, or after a mark."""
    if text.startswith(("{", "[{")):
        return [0]
    after = [mark.end() for mark in _MARK.finditer(text)]
    return sorted({0, *after[:_MARKS_TRIED], *after[-_MARKS_TRIED:]})


def _whole_json(text: str) -> Any:
    """The value of a text that is JSON as a whole, or in one fence; else `_NOTHING`."""
    text = text.strip(_INVISIBLE)
    for fence in _FENCES:
        if len(text) > 2 * len(fence) and text.startswith(fence) and text.endswith(fence):
            label = _LABEL.match(text, len(fence))
            value = _json(text[label.end() if label else len(fence) : -len(fence)])
            return value if value is _NOTHING else [value]
    return _json(text)


def _json(text: str) -> Any:
    """The value of a JSON text, with the liberties that models take; `_NOTHING` if it is none.

    Unusable if it holds too many values, or a key twice.
    """
    if not text[:1].strip() and not text.strip():
        return _NOTHING
    try:
        try:
            return _strict_json(text)
        except ValueError as error:
            if isinstance(error, long_json.TooManyValues):
                raise
            mended = _TEXT_OR_ADDED.sub(lambda part: part[1] or "", text)
            return _strict_json(mended) if mended != text else _NOTHING
    except long_json.TooManyValues as error:
        raise UnusableAnswer(f"the reply holds {error}") from None
    except (ValueError, RecursionError):
        return _NOTHING


def _strict_json(text: str) -> Any:
    # Line breaks inside texts do no harm.
    return long_json.loads(text, object_pairs_hook=_with_all_values, strict=False)


def _with_all_values(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with all values of each key, which must be lists if they differ."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        held = found.setdefault(name, value)
        if held is value or held == value:
            continue
        if not (isinstance(held, list) and isinstance(value, list)):
            raise UnusableAnswer("the reply has a key more than once")
        held.extend(value)
    return found


def _answer_in(
    value: Any, keys: Collection[str], depth: int = 0
) -> tuple[dict[str, Any], bool] | None:
    """The object with a known key that a value is or wraps, and whether it wraps it."""
    if isinstance(value, dict) and any(key in value for key in keys):
        return value, depth > 0
    if depth >= _DEEPEST_WRAPPER:
        return None
    inner: list[Any] = []
    if isinstance(value, dict) and len(value) <= _MOST_KEYS_OF_A_WRAPPER:
        inner = list(value.values())
    elif isinstance(value, list) and len(value) == 1:
        inner = value
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        inner = [_json(value)]
    found = [one for each in inner if (one := _answer_in(each, keys, depth + 1)) is not None]
    return found[0] if len(found) == 1 else None


def _without_reasoning(text: str) -> str | None:
    """What follows the reasoning that a text begins with; None if the reasoning does not end."""
    opening = _OPENING_TAG.match(text)
    if opening is not None and not _ANSWER_TAG.match(text):
        name = opening[0]
        end = text.find(f"{name[0]}/{name[1:]}", opening.end())
        return None if end < 0 else text[end + len(name) + 1 :]
    closing = None if text.startswith(("{", "[", *_FENCES)) else _CLOSING_TAG.search(text)
    if closing is not None and closing[0].replace("/", "", 1) not in text[: closing.start()]:
        return text[closing.end() :]
    return text


def _in_prose(text: str, keys: Collection[str]) -> tuple[dict[str, Any], bool] | None:
    """The object in a text with other words; always wrapped. None if there is none.

    Raises:
        CutOffAnswer: The text ends inside an object.
        UnusableAnswer: It has several objects that differ.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    unfinished = False
    for start, value in _objects(text):
        if value is _NOTHING:
            unfinished = True
        elif (answer := _answer_in(value, keys)) is not None:
            found.append((start, answer[0]))
    if not found:
        if unfinished:
            raise CutOffAnswer("the reply ends in the middle of its JSON")
        return None
    fenced = [answer for start, answer in found if _fence_before(text, start)]
    if fenced:
        return fenced[-1], True
    first = found[0][1]
    if any(answer != first for _, answer in found):
        raise UnusableAnswer("the reply holds several answers")
    return first, True


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """The objects of a text with their positions; `_NOTHING` for one that does not end."""
    left = _SCANS * len(text)
    beginning = _BEGINS_OBJECT.search(text)
    while beginning is not None and left >= 0:
        start = beginning.start()
        end = _end_of_object(text, start)
        value = _NOTHING if end is None else _json(text[start:end])
        if value is not _NOTHING and end is not None:
            yield start, value
            beginning = _BEGINS_OBJECT.search(text, end)
            continue
        if end is None:
            yield start, _NOTHING
        left -= (len(text) if end is None else end) - start
        beginning = _BEGINS_OBJECT.search(text, start + 1)


def _end_of_object(text: str, start: int) -> int | None:
    depth = 0
    for part in _TEXT_OR_BRACE.finditer(text, start):
        if part[0] == "{":
            depth += 1
        elif part[0] == "}":
            depth -= 1
            if not depth:
                return part.end()
    return None


def _fence_before(text: str, position: int) -> bool:
    """Whether an object is the first thing in a fence."""
    line = text[max(0, position - _LONGEST_MARK) : position].rstrip()
    return line.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ5").endswith(_FENCES)
