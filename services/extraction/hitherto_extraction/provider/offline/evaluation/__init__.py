"""Precision and recall of the offline rules on sentences that were written before them.

Every text is one message of an unknown user. A memory is correct if it has the expected type and
contains the expected words. An unexpected memory, a wrong field of `facts.personal` and any profile
field from a negative text count against precision; an expectation that nothing met counts against
recall.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any

from hitherto_extraction.provider.offline.extractor import extract
from hitherto_extraction.provider.protocol import Batch, PromptMessage
from hitherto_shared.text.normalise import normalized

_SETS = {
    "English": "english.json",
    "Vietnamese": "vietnamese.json",
    "English, held out": "english_held_out.json",
    "Vietnamese, held out": "vietnamese_held_out.json",
}


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """The result for one data set.

    Attributes:
        language: The language, and whether the set was held out.
        positives: Texts that state something.
        negatives: Texts that must yield nothing.
        precision: Share of right memories among all that were written.
        recall: Share of the expected memories that were written.
    """

    language: str
    positives: int
    negatives: int
    precision: float
    recall: float


@dataclass(slots=True)
class EvaluationCounts:
    """Counts, with the texts behind them."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    profile_from_negative: list[str] = field(default_factory=list)


def load(name: str) -> dict[str, Any]:
    """Read a data set of this folder, such as `english.json`."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def measure() -> list[EvaluationFigures]:
    """Precision and recall for every data set, the held-out ones last."""
    found = []
    for language, name in _SETS.items():
        data = load(name)
        result = score(data)
        written = result.right + len(result.wrong)
        expected = result.right + len(result.missed)
        found.append(
            EvaluationFigures(
                language,
                len(data["positives"]),
                len(data["negatives"]),
                result.right / written if written else 1.0,
                result.right / expected if expected else 1.0,
            )
        )
    return found


def score(data: Mapping[str, Any]) -> EvaluationCounts:
    """Run the extractor over one data set."""
    said_at = datetime.fromisoformat(data["said_at"])
    result = EvaluationCounts()
    for item in data["positives"]:
        _score_positive(item, _answer(item["text"], said_at), result)
    for item in data["negatives"]:
        answer = _answer(item["text"], said_at)
        result.wrong += [
            f"{item['text']} -> {memory['content']}" for memory in answer["new_memories"]
        ]
        if profile := _profile(answer):
            result.profile_from_negative.append(f"{item['text']} -> {profile}")
    return result


def _answer(text: str, said_at: datetime) -> dict[str, Any]:
    message = PromptMessage("m1", "user", "", text, said_at)
    return extract(Batch(profile={}, summary=None, memories=(), messages=(message,)))


def _score_positive(
    item: Mapping[str, Any], answer: Mapping[str, Any], result: EvaluationCounts
) -> None:
    memories = list(answer["new_memories"])
    profile = _profile(answer)
    wanted = [{"type": item["type"], "contains": item["contains"]}, *item.get("also", [])]
    expected_fields = item.get("profile", {})
    fields_fit = all(_fits(profile.get(path), value) for path, value in expected_fields.items())
    for number, expectation in enumerate(wanted):
        hit = next((memory for memory in memories if _meets(memory, expectation)), None)
        if hit is not None:
            memories.remove(hit)
        if hit is None or (number == 0 and not fields_fit):
            result.missed.append(f"{item['text']} -> {expectation} {expected_fields}")
        else:
            result.right += 1
    result.wrong += [f"{item['text']} -> {memory['content']}" for memory in memories]
    result.wrong += [
        f"{item['text']} -> {path}={value}"
        for path, value in profile.items()
        if path.startswith("facts.personal.") and not _fits(value, expected_fields.get(path, ""))
    ]


def _profile(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an answer's profile by path; those of a list together."""
    found: dict[str, Any] = {}
    for change in answer["profile_changes"]:
        path, value = change["path"], change["value"]
        found[path] = [*found.get(path, []), *value] if isinstance(value, list) else value
    return found


def _meets(memory: Mapping[str, Any], expectation: Mapping[str, Any]) -> bool:
    content = _plain(memory["content"])
    return memory["type"] == expectation["type"] and all(
        _plain(word) in content for word in expectation["contains"]
    )


def _fits(value: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(value, list) and {_plain(item) for item in expected} <= {
            _plain(item) for item in value
        }
    return isinstance(value, str) and _plain(value) == _plain(expected)


def _plain(text: str) -> str:
    return normalized("NFC", text).casefold()
