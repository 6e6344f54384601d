"""The conversation summary: extractive, in the conversation's language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitherto_extraction.provider.offline.language import LANGUAGES, LanguageTable
from hitherto_extraction.provider.offline.reading import MessageReading, UserStatement
from hitherto_extraction.provider.offline.technologies import find_technologies, technical_phrases
from hitherto_extraction.provider.offline.text import cut, is_planted, own_words, sentences
from hitherto_extraction.provider.protocol import PromptMessage

_TITLE = 80
_SUGGESTION = 100
_QUESTION = 120
_TOPICS = 8
_SUGGESTIONS = 3
_SENTENCES = 3
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+")


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user, as read."""

    message: PromptMessage
    language: LanguageTable | None
    reading: MessageReading


@dataclass(slots=True)
class Talk:
    """A batch as the summary needs it.

    Attributes:
        turns: The user's messages.
        answered: Whether the assistant answered after the last of them.
    """

    turns: list[Turn] = field(default_factory=list)
    answered: bool = False


def summarise(
    talk: Talk, statements: Sequence[UserStatement], earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Summarise a conversation up to and with this batch.

    Args:
        talk: The batch.
        statements: What was learnt from it.
        earlier: The summary so far; the answer then covers the whole conversation.
    """
    old = earlier or {}
    said = [turn.message.content for turn in talk.turns if not is_planted(turn.message.content)]
    texts = [own_words(text) for text in said]
    spoken = [sentence for text in texts for sentence in sentences(text)]
    questions = list(dict.fromkeys(q for turn in talk.turns for q in turn.reading.questions))
    language = _language(talk)
    words = language or LANGUAGES[0]
    names = [turn.message.name.strip() for turn in talk.turns]
    subject = next((name for name in names if name.casefold() not in ("", "user")), words.subject)

    found: list[str] = []
    weighty = sorted(statements, key=lambda item: -item.meaning.importance)
    facts = [each.content.rstrip(".") for each in weighty if each.meaning.type != "question"][:3]
    if facts:
        found.append(
            "; ".join([facts[0], *(x.removeprefix(f"{subject} ") for x in facts[1:])]) + "."
        )
    if questions and language:
        asked = " ".join(cut(question, _QUESTION) for question in questions[:2])
        found.append(words.phrases["asked"].format(s=subject, x=asked))
    if not found and spoken:
        short = cut(spoken[0], 2 * _QUESTION)
        # Without a language of ours the words around what was written are kept to none.
        found.append(words.phrases["wrote"].format(s=subject, x=short) if language else short)
    old_text = _text(old.get("summary"))
    fresh = [sentence for sentence in found if sentence not in old_text]
    before = _SENTENCE_END.split(old_text)[: max(1, _SENTENCES - len(fresh))] if old_text else []

    technical = list(dict.fromkeys(each.name for x in texts for each in find_technologies(x)))
    tags = (tag for item in statements for tag in item.meaning.tags if tag in words.topics)
    topics = [words.topics[tag] for tag in tags] + technical
    topics += [name for item in statements for name, _ in item.entities]
    outcome = _outcome(talk, language)
    suggestions = _suggestions(talk, questions, statements, texts, language, outcome)
    long = [each for each in spoken if len(each.split()) > 2 or len(each) > 12]
    return {
        "title": _text(old.get("title"))
        or cut(next(iter(long), " ".join(spoken)).rstrip(" .!"), _TITLE),
        "summary": " ".join([*before, *fresh]).strip(),
        "key_topics": _united(old.get("key_topics"), topics),
        "technical_topics": _united(old.get("technical_topics"), technical),
        "outcome": outcome,
        "followup_suggestions": suggestions,
    }


def _language(talk: Talk) -> LanguageTable | None:
    """The language most was written in."""
    used = [turn for turn in talk.turns if turn.language]

    def written(language: LanguageTable) -> int:
        return sum(len(turn.message.content) for turn in used if turn.language is language)

    return max(LANGUAGES, key=written) if used else None


def _outcome(talk: Talk, language: LanguageTable | None) -> str:
    if not talk.turns:
        return "ongoing"
    last = talk.turns[-1]
    if last.reading.questions and not talk.answered:
        return "needs_followup"
    language = last.language or language
    if language is None:
        return "ongoing"
    text = own_words(last.message.content)
    if language.grammar["later"].search(text):
        return "needs_followup"
    thanked = language.grammar["thanks"].search(text) and not last.reading.questions
    return "resolved" if thanked else "ongoing"


def _suggestions(
    talk: Talk,
    questions: Sequence[str],
    statements: Sequence[UserStatement],
    texts: Sequence[str],
    language: LanguageTable | None,
    outcome: str,
) -> list[str]:
    if language is None:
        return []
    found: list[tuple[str, str]] = []
    if outcome != "resolved":
        found += [("solved", each.topic) for each in statements if each.meaning.type == "problem"]
        ways = (language.grammar["how_to"].match(question) for question in questions)
        found += [("go_on", way.group(1)) for way in ways if way]
    found += [("goal", each.topic) for each in statements if each.meaning.type == "goal"]
    found += [("go_on", phrase) for text in texts for phrase in technical_phrases(text)]
    suggestions = []
    for phrase, about in found:
        sentence = language.phrases[phrase]
        short = cut(about.strip(" .?!"), _SUGGESTION - len(sentence) + 3)
        suggestions.append(sentence.format(x=short))
    return list(dict.fromkeys(suggestions))[:_SUGGESTIONS]


def _united(old: object, new: Sequence[str]) -> list[str]:
    """Old topics first, each once, whatever its case."""
    united: dict[str, str] = {}
    for each in [*(old if isinstance(old, list | tuple) else ()), *new]:
        if isinstance(each, str):
            united.setdefault(each.casefold(), each)
    return list(united.values())[:_TOPICS]


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
