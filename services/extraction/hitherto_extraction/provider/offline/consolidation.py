"""Merges memories by rules: statements with the same words, and preferences of one form.

There are two rules, and neither invents anything. Statements with equal words, or of which one
contains all the words of the other in order without a denial in between, become the fuller one.
Preferences that begin alike ("The user prefers …") and share a tag for their subject become one
sentence that lists their endings. The caller checks whether anything was lost, as with any model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hitherto_extraction.provider.offline.text import fold
from hitherto_extraction.provider.protocol import PromptMemory

_MOST_JOINED = 6
_LONGEST = 300
"""Maximum characters of a joined sentence."""
_NOT = frozenset(
    "not no never don t doesn didn isn aren won can cannot without dislikes dislike hates only "
    "except unless but longer used khong chua chang dung ghet chi tru nhung".split()
)
_AND = {"en": "and", "vi": "và"}
_HEADS = tuple(
    (language, head)
    for language, heads in (
        ("en", "the user prefers,user prefers,prefers,the user likes,user likes,likes"),
        ("vi", "người dùng thích,thích"),
    )
    for head in heads.split(",")
)
_BROAD = frozenset("preference like dislike feedback personal_info".split())
"""Tags for the kind of a statement rather than its subject."""


def consolidate(memories: Sequence[PromptMemory]) -> dict[str, Any]:
    """Answer a consolidation with the object that is requested from a language model."""
    merged = _same_words(memories)
    used = {name for item in merged for name in item["merged"]}
    return {"memories": [*merged, *_joined([m for m in memories if m.local_id not in used])]}


def _same_words(memories: Sequence[PromptMemory]) -> list[dict[str, Any]]:
    """Statements that contain the words of others; the longest represents all of them."""
    longest_first = sorted(memories, key=lambda each: -len(fold(each.content).split()))
    found: list[list[PromptMemory]] = []
    for each in longest_first:
        home = next((group for group in found if _holds(group[0], each)), None)
        if home is None:
            found.append([each])
        else:
            home.append(each)
    return [_item(group, group[0].content) for group in found if len(group) > 1]


def _holds(whole: PromptMemory, part: PromptMemory) -> bool:
    """Whether a statement begins or ends with another one and does not change its meaning."""
    if whole.type != part.type:
        return False
    long, short = fold(whole.content).split(), fold(part.content).split()
    if long == short:
        return True
    at_an_end = long[: len(short)] == short or long[-len(short) :] == short
    added = long[len(short) :] if long[: len(short)] == short else long[: -len(short)]
    return len(short) > 2 and at_an_end and not _NOT & set(added)


def _joined(memories: Sequence[PromptMemory]) -> list[dict[str, Any]]:
    """Preferences of one form and one facet, as one sentence that lists them."""
    found = []
    used: set[str] = set()
    for facet in dict.fromkeys(tag for each in memories for tag in each.tags if tag not in _BROAD):
        for language, head in _HEADS:
            alike = [
                each
                for each in memories
                if facet in each.tags and each.local_id not in used and _rest(each, head)
            ][:_MOST_JOINED]
            rests = [_rest(each, head) for each in alike]
            if len(alike) < 2 or sum(map(len, rests)) > _LONGEST:
                continue
            listed = f"{', '.join(rests[:-1])} {_AND[language]} {rests[-1]}"
            start = alike[0].content.strip()[: len(head)]
            found.append(_item(alike, f"{start} {listed}."))
            used.update(each.local_id for each in alike)
    return found


def _rest(memory: PromptMemory, head: str) -> str:
    """The list after a preference's head, or nothing if it is more than a list."""
    content = memory.content.strip()
    if memory.type != "preference" or not content.lower().startswith(f"{head} "):
        return ""
    rest = content[len(head) :].strip().rstrip(".!。 ")
    plain = not any(sign in rest for sign in ".;:!?\n") and not _NOT & set(fold(rest).split())
    return rest if plain and len(rest) <= _LONGEST else ""


def _item(originals: Sequence[PromptMemory], content: str) -> dict[str, Any]:
    tags = dict.fromkeys(tag for each in originals for tag in each.tags)
    return {
        "type": originals[0].type,
        "content": content,
        "tags": list(tags),
        "merged": [each.local_id for each in originals],
    }
