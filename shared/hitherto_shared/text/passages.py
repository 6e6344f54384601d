"""The text of a message or a summary that is indexed and embedded."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EMBEDDED = 4_000
"""Maximum characters of a message or summary for its vector; of a longer one, the beginning."""
SHORTEST_EMBEDDED = 3
"""Minimum characters of a message with a vector: shorter ones carry no meaning of their own."""


def message_text(name: str, content: str) -> str:
    """A message with the name of its speaker, if it has one."""
    return f"{name}: {content}" if name else content


def summary_text(
    title: str, summary: str, key_topics: Sequence[str], technical_topics: Sequence[str]
) -> str:
    """The subject of a conversation: title, summary and topics, line by line."""
    topics = ", ".join(dict.fromkeys([*key_topics, *technical_topics]))
    return "\n".join(part for part in (title, summary, topics) if part)
