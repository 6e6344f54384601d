"""The conversation summary: extractive, in the conversation's language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitherto_extraction.provider.offline.language import Language
from hitherto_extraction.provider.offline.statement import Reading, Statement
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


@dataclass(slots=True)
class Turn:
    """A message of the user, as read."""

    message: PromptMessage
    language: Language | None
    reading: Reading


@dataclass(slots=True)
class Talk:
    """The messages of a batch as the summary needs them.

    Attributes:
        turns: The user's messages.
        answered: Whether somebody answered after the user's last message.
    """

    turns: list[Turn] = field(default_factory=list)
    answered: bool = False

    def user(self, message: PromptMessage, language: Language | None, reading: Reading) -> None:
        """Add a message of the user."""
        self.turns.append(Turn(message, language, reading))
        self.answered = False

    def others(self, message: PromptMessage) -> None:
        """Add a message of somebody else, which counts only as an answer."""
        self.answered = self.answered or (message.role == "assistant" and bool(message.content))


def summarise(
    talk: Talk,
    statements: Sequence[Statement],
    earlier: Mapping[str, Any] | None,
    languages: Sequence[Language],
) -> dict[str, Any]:
    """Summarise a conversation up to and with this batch.

    Args:
        talk: The batch.
        statements: What was learnt from it.
        earlier: The summary so far; the answer then covers the whole conversation.
        languages: To choose the language of the summary from; the first is the default.
    """
    language = _language(talk)
    # Without a language of ours the words around what was written are kept to none.
    words = language or languages[0]
    texts = [own_words(turn.message.content) for turn in talk.turns if _harmless(turn)]
    questions = list(dict.fromkeys(q for turn in talk.turns for q in turn.reading.questions))
    subject = _subject(talk, words)
    technical = list(dict.fromkeys(t.name for text in texts for t in find_technologies(text)))
    topics = _topics(technical, statements, words)
    outcome = _outcome(talk)
    old = earlier or {}
    text = _merge_text(
        _text_of(old.get("summary")),
        _sentences(subject, questions, statements, texts, words, language),
    )
    suggestions = _suggestions(questions, statements, texts, words, outcome) if language else []
    return {
        "title": _text_of(old.get("title")) or _title(texts),
        "summary": text,
        "key_topics": _merge(old.get("key_topics"), topics, _TOPICS),
        "technical_topics": _merge(old.get("technical_topics"), technical, _TOPICS),
        "outcome": outcome,
        "followup_suggestions": suggestions,
    }


def _harmless(turn: Turn) -> bool:
    return not is_planted(turn.message.content)


def _language(talk: Talk) -> Language | None:
    counts: dict[str, int] = {}
    found: dict[str, Language] = {}
    for turn in talk.turns:
        if turn.language:
            counts[turn.language.code] = counts.get(turn.language.code, 0) + len(
                turn.message.content
            )
            found[turn.language.code] = turn.language
    return found[max(counts, key=lambda code: counts[code])] if counts else None


def _subject(talk: Talk, language: Language) -> str:
    names = [turn.message.name.strip() for turn in talk.turns if turn.message.name.strip()]
    return names[0] if names and names[0].casefold() != "user" else language.subject


def _title(texts: Sequence[str]) -> str:
    for text in texts:
        for sentence in sentences(text):
            if len(sentence.split()) > 2 or len(sentence) > 12:
                return cut(sentence.rstrip(" .!"), _TITLE)
    return cut(" ".join(sentences(" ".join(texts))), _TITLE)


def _topics(technical: list[str], statements: Sequence[Statement], language: Language) -> list[str]:
    topics: dict[str, str] = {}
    for statement in statements:
        for tag in statement.tags:
            if tag in language.phrases.topics:
                topic = language.phrases.topics[tag]
                topics.setdefault(topic.casefold(), topic)
    for name in technical + [name for item in statements for name, _ in item.entities]:
        topics.setdefault(name.casefold(), name)
    if not topics:
        for word in [word for item in statements for word in item.keywords][:3]:
            topics.setdefault(word, word)
    return list(topics.values())[:_TOPICS]


def _sentences(
    subject: str,
    questions: Sequence[str],
    statements: Sequence[Statement],
    texts: Sequence[str],
    words: Language,
    language: Language | None,
) -> list[str]:
    found: list[str] = []
    told = sorted(
        (item for item in statements if item.type != "question"), key=lambda item: -item.importance
    )[:3]
    if told:
        first, *rest = (item.content.rstrip(".") for item in told)
        rest = [item.removeprefix(f"{subject} ") for item in rest]
        found.append("; ".join([first, *rest]) + ".")
    if questions and language:
        asked = " ".join(cut(question, _QUESTION) for question in questions[:2])
        found.append(words.phrases.asked.replace("{s}", subject).replace("{x}", asked))
    if not found:
        said = [sentence for text in texts for sentence in sentences(text)][:1]
        for sentence in said:
            short = cut(sentence, 2 * _QUESTION)
            wrote = words.phrases.wrote.replace("{s}", subject).replace("{x}", short)
            found.append(wrote if language else short)
    return found


def _merge_text(old: str, new: list[str]) -> str:
    before = _SENTENCE_END.split(old) if old else []
    fresh = [sentence for sentence in new if sentence not in old]
    room = max(1, _SENTENCES - len(fresh))
    return " ".join(before[:room] + fresh).strip()


def _outcome(talk: Talk) -> str:
    if not talk.turns:
        return "ongoing"
    last = talk.turns[-1]
    language = last.language or _language(talk)
    if last.reading.questions and not talk.answered:
        return "needs_followup"
    if language is None:
        return "ongoing"
    text = own_words(last.message.content)
    if language.later.search(text):
        return "needs_followup"
    if language.thanks.search(text) and not last.reading.questions:
        return "resolved"
    return "ongoing"


def _suggestions(
    questions: Sequence[str],
    statements: Sequence[Statement],
    texts: Sequence[str],
    language: Language,
    outcome: str,
) -> list[str]:
    phrases = language.phrases
    found: dict[str, None] = {}

    def add(template: str, about: str) -> None:
        about = about.strip(" .?!")
        room = _SUGGESTION - len(template) + 2
        if about:
            found.setdefault(template.replace("{x}", cut(about, room)))

    if outcome != "resolved":
        for item in statements:
            if item.type == "problem":
                add(phrases.solved, item.topic)
        for question in questions:
            how = language.how_to.match(question)
            if how:
                add(phrases.go_on, how.group(1))
    for item in statements:
        if item.type == "goal":
            add(phrases.goal, item.topic)
        elif item.type == "context" and "project" in item.tags and item.entities:
            add(phrases.go_on, item.entities[-1][0])
    for phrase in dict.fromkeys(p for text in texts for p in technical_phrases(text)):
        add(phrases.go_on, phrase)
    return list(found)[:_SUGGESTIONS]


def _merge(old: object, new: list[str], most: int) -> list[str]:
    """Old topics first, each once, whatever its case."""
    before = (
        [item for item in old if isinstance(item, str)] if isinstance(old, list | tuple) else []
    )
    united: dict[str, str] = {}
    for item in before + new:
        united.setdefault(item.casefold(), item)
    return list(united.values())[:most]


def _text_of(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
