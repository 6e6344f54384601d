"""The text by which a message or a summary is found: what is indexed and what is embedded."""

from __future__ import annotations

from collections.abc import Sequence

MAX_EMBEDDED = 4_000
"""Characters of a message or summary that its vector is made of; of a longer one the beginning."""
SHORTEST_EMBEDDED = 3
"""Characters of a message from which on it has a vector: shorter ones say nothing by themselves."""


def message_text(name: str, content: str) -> str:
    """A message with the name of its speaker, if it has one."""
    return f"{name}: {content}" if name else content


def summary_text(
    title: str, summary: str, key_topics: Sequence[str], technical_topics: Sequence[str]
) -> str:
    """What a conversation was about: title, summary and topics, line by line."""
    topics = ", ".join(dict.fromkeys([*key_topics, *technical_topics]))
    return "\n".join(part for part in (title, summary, topics) if part)
