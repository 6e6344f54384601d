"""The words of the contract as people read them."""

from __future__ import annotations

_LABELS = {
    "needs_followup": "needs follow-up",
    "unspecified": "not known",
    "timed_out": "timed out",
    "rolled_back": "taken back",
    "contradicted": "no longer true",
    "superseded": "merged",
    "quarantined": "to be reviewed",
    "fulltext": "full text",
    "source_priority": "source",
    "about_the_user": "About the user",
    "what_you_know": "What you know",
    "relevant_context": "Relevant context",
    "markdown": "Markdown",
    "conversation": "a conversation",
    "explicit": "said to be remembered",
    "inference": "inferred",
    "action": "an action",
    "system": "the system",
    "consolidation": "merged from several",
}


def label(word: str) -> str:
    """A word of the contract, for people."""
    return _LABELS.get(word, word.replace("_", " "))
