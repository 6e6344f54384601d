"""The conversation summary: extractive, in the conversation's language."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hitherto_extraction.provider.offline.language import detect, technologies
from hitherto_extraction.provider.offline.reading import UserStatement, cut, sentences
from hitherto_extraction.provider.protocol import Batch
from hitherto_shared.text.instructions import overrides_instructions

_SAID, _SUGGESTION, _SUGGESTIONS = 240, 90, 3


def summarise(
    batch: Batch, questions: Sequence[str], statements: Sequence[UserStatement]
) -> dict[str, Any]:
    """Summarise a conversation up to and with this batch; its title is left to the pipeline."""
    said_by_user = [each.content for each in batch.messages if each.role == "user"]
    # What was pasted with orders to an assistant would be refused with the rest of the summary.
    own = [text for text in said_by_user if not overrides_instructions(text)]
    spoken = [sentence for text in own for sentence in sentences(text)]
    old, language = batch.summary or {}, detect("\n".join(spoken))
    weighty = sorted(statements, key=lambda each: -each.meaning["importance"])
    facts = [each.memory["content"].rstrip(".") for each in weighty][:3]
    subject = language.subject if language else ""
    # Behind words about somebody else, the subject is needed.
    told = facts[:1] + [
        fact.removeprefix(f"{subject} ") if before.startswith(subject) else fact
        for before, fact in pairwise(facts)
    ]
    found = [f"{'; '.join(told)}."] if facts else []
    outcome, open_ = "ongoing", []
    if language:
        last = language.changed(spoken[-1], "spoken")
        how, said = (
            ("asked", questions[:2]) if questions else ("wrote", [] if found else spoken[:1])
        )
        if said:
            phrase = language.phrases[how]
            found.append(phrase.format(s=language.subject, x=cut(" ".join(said), _SAID)))
        unanswered = last in questions and batch.messages[-1].role == "user"
        if unanswered or language.grammar["later"].search(last):
            outcome = "needs_followup"
        elif language.grammar["thanks"].search(last):
            outcome = "resolved"
        open_ = [each.topic for each in statements if each.meaning["type"] in ("problem", "goal")]
    else:
        found += [cut(each, _SAID) for each in spoken[:1]]
    technical = list(dict.fromkeys(name for each in spoken for name in technologies(each)))
    before = str(old.get("summary") or "")
    return {
        "summary": " ".join([before, *(each for each in found if each not in before)]).strip(),
        "key_topics": [*old.get("key_topics", ()), *technical],
        "technical_topics": [*old.get("technical_topics", ()), *technical],
        "outcome": outcome,
        "followup_suggestions": [
            language.phrases["go_on"].format(x=cut(each.strip(" .?!"), _SUGGESTION))
            for each in [*open_, *technical]
            if language and outcome != "resolved"
        ][:_SUGGESTIONS],
    }
