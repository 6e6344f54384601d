"""Suggested follow-up questions, which extraction prepared with the summaries (D15).

Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_shared.models import Summary
from hitherto_shared.text.normalise import fold

CONVERSATIONS = 5
"""Number of recent conversations that suggestions come from."""
MAX_CHARACTERS = 100
_URGENCY = {"needs_followup": 0, "ongoing": 1, "resolved": 2}


def suggest(summaries: Sequence[Summary], limit: int) -> list[str]:
    """At most `limit` suggestions: what needs a follow-up first, then ongoing work, then others."""
    ordered = sorted(summaries[:CONVERSATIONS], key=lambda summary: _URGENCY[summary.outcome])
    found: dict[str, str] = {}
    for summary in ordered:
        for text in summary.followup_suggestions:
            if 0 < len(text) <= MAX_CHARACTERS:
                found.setdefault(fold(text), text)
    return list(found.values())[:limit]


def recent_topics(summaries: Sequence[Summary]) -> list[str]:
    """Topics of the last conversations, newest first, each once."""
    found: dict[str, str] = {}
    for summary in summaries[:CONVERSATIONS]:
        for topic in (*summary.key_topics, *summary.technical_topics):
            found.setdefault(fold(topic), topic)
    return list(found.values())
