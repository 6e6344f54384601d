"""Merges memories by rules: statements with the same words, and preferences of one form.

Preferences that begin alike ("User prefers …") and share a tag for their subject become one
sentence that lists their endings, so nothing is invented. The caller checks whether anything was
lost, as with any model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hitherto_extraction.provider.protocol import PromptMemory
from hitherto_shared.text.normalise import fold

_MOST_JOINED = 6
_LISTED = re.compile(
    r"(?P<head>(?:the )?user (?:prefers|likes)|người dùng thích) (?P<rest>[^.;:!?\n]{1,100})\.?$",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not?|never|without|only|except|but|không|chưa|đừng|nhưng)\b|n't", re.I)
_BROAD = frozenset({"preference", "like", "dislike", "personal_info"})
"""Tags for the kind of a statement rather than its subject."""


def consolidate(memories: Sequence[PromptMemory]) -> dict[str, Any]:
    """Answer a consolidation with the object that is requested from a language model."""
    equal: dict[tuple[str, str], list[PromptMemory]] = {}
    for each in memories:
        equal.setdefault((each.type, fold(each.content).rstrip(". ")), []).append(each)
    merged = [_merged(group, group[0].content) for group in equal.values() if len(group) > 1]
    alike: dict[tuple[str, str], dict[str, PromptMemory]] = {}
    for (one,) in (group for group in equal.values() if len(group) == 1):
        listed = _LISTED.match(one.content.strip())
        facets = [tag for tag in one.tags if tag not in _BROAD]
        if listed and facets and one.type == "preference" and not _NOT.search(one.content):
            key = (facets[0], listed["head"])
            alike.setdefault(key, {}).setdefault(listed["rest"].strip(), one)
    for (_, head), listing in alike.items():
        *rests, last = list(listing)[:_MOST_JOINED]
        if rests:
            joint = "and" if head.isascii() else "và"
            group = list(listing.values())[:_MOST_JOINED]
            merged.append(_merged(group, f"{head} {', '.join(rests)} {joint} {last}."))
    return {"memories": merged}


def _merged(group: Sequence[PromptMemory], content: str) -> dict[str, Any]:
    tags = list(dict.fromkeys(tag for each in group for tag in each.tags))
    names = [each.local_id for each in group]
    return {"type": group[0].type, "content": content, "tags": tags, "merged": names}
