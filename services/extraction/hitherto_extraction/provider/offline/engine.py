"""Applies a language's rules to the user's messages. Knows no language itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hitherto_extraction.provider.offline.dates import Moment, resolve_dates, since_year
from hitherto_extraction.provider.offline.language import Language
from hitherto_extraction.provider.offline.rules import (
    Clause,
    Rule,
    fill,
    proper,
    starts_like_name,
)
from hitherto_extraction.provider.offline.statement import Denial, Reading, Speaker, Statement
from hitherto_extraction.provider.offline.technologies import Technology, find_technologies
from hitherto_extraction.provider.offline.text import (
    cut,
    fold,
    fold_all,
    has_capitals,
    is_planted,
    is_sarcastic,
    own_words,
    sentences,
)

_NAMES = ("place", "origin", "company", "name")
_DOINGS = ("fact", "personal", "context")
_EVENTS = ("question", "problem", "learning")
_EVENT_LENGTH = 200
_VALUE_LENGTH = 400
_TECHNOLOGY_FIELDS = {
    "language": "facts.preferences.languages[]",
    "framework": "facts.technical_context.frameworks[]",
}
_ITS = re.compile(r"\bthe assistant's\b")
_PROJECT_NAME = re.compile(
    r"\b(?:called|named|tên là|có tên|gọi là|tên)\s+"
    r"(?P<name>[^\s,.;]+(?:\s+[^\W\d_a-zà-ỹđ][^\s,.;]*){0,2})"
)
_PERSON = re.compile(
    r"^(?:my |our )?(?:\w+ )?\w+,? (?P<name>[A-Z][\w'-]+)\b"
    r"|\btên (?:là )?(?P<vi>[^\W\d_a-zà-ỹđ]\w*)"
)


def read(text: str, language: Language, speaker: Speaker) -> Reading:
    """Read one message.

    Args:
        text: The whole message.
        language: The language it is in.
        speaker: Who speaks; `said_at` is in the speaker's time zone.
    """
    reading = Reading()
    if is_planted(text):
        # An order to the memory poisons its neighbours too: "save this: I am…".
        return reading
    cased = has_capitals(own_words(text))
    greeted = False
    announced = False
    untold: list[str] = []
    for sentence in sentences(own_words(text)):
        plain = language.trim(" ".join(language.clauses(sentence)) or sentence)[0]
        if language.refuse_rest.match(sentence) or language.refuse_rest.match(plain):
            break
        if is_sarcastic(text) or language.refuse.search(sentence):
            continue
        asked = _is_question(sentence, plain, language)
        if asked:
            reading.questions.append(sentence)
            how_to = _how_to(sentence, language, speaker)
            reading.statements += [how_to] if how_to else []
        told = len(reading.statements)
        for part in _clauses(sentence, language):
            clause, hello = language.trim(part)
            greeted = greeted or hello
            if not asked and language.announces.search(clause):
                announced = True
                continue
            asking = asked and language.asks.search(clause)
            if not clause or (asking and not language.request.search(clause)):
                continue
            loud = clause.isupper() and len(clause) > 3
            _read_clause(
                clause.lower() if loud else clause,
                cased and not loud,
                greeted,
                asked,
                language,
                speaker,
                reading,
            )
        if not asked and len(reading.statements) == told:
            untold.append(sentence)
    if announced:
        for statement in reading.statements:
            statement.announced = statement.type in _DOINGS
        reading.statements += _announced(untold, language, speaker)
    return reading


def _clauses(sentence: str, language: Language) -> list[str]:
    return language.clauses(re.sub(r"[?？]+$", "", sentence).strip())


def _is_question(sentence: str, plain: str, language: Language) -> bool:
    bare = re.sub(r"[\s)\"']+$", "", sentence)
    return bare.endswith(("?", "？")) or bool(language.question.search(plain))


def _read_clause(
    text: str,
    cased: bool,
    greeted: bool,
    asked: bool,
    language: Language,
    speaker: Speaker,
    reading: Reading,
) -> None:
    hedge = language.hedge.match(text)
    text = text[hedge.end() :] if hedge else text
    clause_text, moments = resolve_dates(text, language.code, speaker.said_at.date())
    clause_text = language.trim(clause_text)[0]
    clause = Clause(clause_text, cased, greeted, asked)
    statement = _first_match(clause, moments, language, speaker)
    ended = language.ended(clause_text)
    if ended and not asked:
        _end(ended, clause, moments, language, speaker, reading)
        return
    if statement:
        if hedge:
            statement.confidence = "low" if statement.confidence == "low" else "medium"
        reading.statements.append(statement)
    elif not asked and (positive := language.denied(clause_text)):
        denied = _first_match(Clause(positive, cased, greeted), [], language, speaker)
        if denied and denied.attributes:
            reading.denials.append(Denial(denied.attributes, speaker.message_id))


def _announced(untold: Sequence[str], language: Language, speaker: Speaker) -> list[Statement]:
    """After "I did it", each sentence that no rule read may be the one that says what."""
    rule = Rule(
        "announced",
        language.announces,
        "fact",
        language.phrases.reached,
        0.6,
        "medium",
        tags=("achievement",),
        achieves=True,
        needs_goal=True,
    )
    found = []
    for sentence in untold:
        plain, moments = resolve_dates(sentence, language.code, speaker.said_at.date())
        topic = _tidy(language.trim(plain)[0])
        if topic and not language.announces.search(topic):
            groups = {"s": speaker.subject, "x": language.shift(topic)}
            found.append(_make(rule, groups, Clause(plain), moments, language, speaker))
    return found


def _end(
    positive: str,
    clause: Clause,
    moments: list[Moment],
    language: Language,
    speaker: Speaker,
    reading: Reading,
) -> None:
    """Something that was so has ended: it is a fact of its own, and denies the old one."""
    positive = language.trim(positive)[0]
    was = _first_match(Clause(positive, clause.cased), [], language, speaker)
    if not was:
        return
    verb = positive.partition(" ")[2]
    fact = Rule("ended", was.rule.pattern, "fact", language.ended_form, 0.5, tags=("change",))
    statement = _make(
        fact, {"s": speaker.subject, "x": language.shift(verb)}, clause, moments, language, speaker
    )
    reading.statements.append(statement)
    reading.denials.append(Denial(was.attributes, speaker.message_id, statement))


def _first_match(
    clause: Clause, moments: list[Moment], language: Language, speaker: Speaker
) -> Statement | None:
    if not clause.text:
        return None
    for rule in language.rules:
        if clause.asked and not rule.request and language.request.search(clause.text):
            continue
        match = rule.pattern.match(clause.text)
        if not match:
            continue
        raw = {key: _tidy(value) for key, value in match.groupdict().items() if value}
        if rule.guard and not rule.guard(raw, clause):
            continue
        groups = {key: _value(key, value, clause, language) for key, value in raw.items()}
        groups = {key: value for key, value in groups.items() if value}
        groups["s"] = speaker.subject
        return _make(rule, groups, clause, moments, language, speaker)
    return None


def _tidy(value: str) -> str:
    return cut(value.strip(" ,.;:!?…-"), _VALUE_LENGTH)


def _value(key: str, value: str, clause: Clause, language: Language) -> str:
    if key == "company":
        # An employer without a name ("a children's hospital") is no company.
        named = any(starts_like_name(word, clause.cased) for word in value.split())
        return proper(value, clause.cased) if named and not language.common.match(value) else ""
    if key in _NAMES:
        return proper(value, clause.cased) if starts_like_name(value, clause.cased) else ""
    if (
        clause.text.startswith(value)
        and value[1:2].islower()
        and not find_technologies(value.split(maxsplit=1)[0])
    ):
        # It opened the sentence; inside ours it needs no capital.
        value = value[0].lower() + value[1:]
    if key == "rest":
        return f" {value}" if value else ""
    if key in ("verb", "how"):
        return value.lower()
    shifted = language.shift(value)
    # In "wants the assistant to …" the assistant has just been named.
    return _ITS.sub("its", shifted) if key == "order" else shifted


def _make(
    rule: Rule,
    groups: dict[str, str],
    clause: Clause,
    moments: list[Moment],
    language: Language,
    speaker: Speaker,
) -> Statement:
    if not rule.write.startswith("{s}") and speaker.subject == language.subject:
        groups = groups | {"s": speaker.subject[0].lower() + speaker.subject[1:]}
    content = " ".join(fill(rule.write, groups, language.third_person).split())
    content = content[:1].upper() + content[1:]
    content = content.rstrip(" .") + ("" if content.endswith(("?", "？")) else ".")
    if moments:
        content = f"{content[:-1]} ({', '.join(moment.text for moment in moments)})."
    if rule.type in _EVENTS:
        content = cut(content, _EVENT_LENGTH)
    attributes = {
        _attribute(key, groups): fold(fill(value, groups)) for key, value in rule.attributes.items()
    }
    profile = [(path, fill(value, groups)) for path, value in rule.profile.items()]
    if rule.style:
        style = language.style(clause.text)
        attributes |= {key: fold(value) for key, value in style.items()}
        profile += _style_fields(style)
    technologies = find_technologies(clause.text)
    if rule.technologies:
        profile += [
            (_TECHNOLOGY_FIELDS[found.kind], found.name)
            for found in technologies
            if found.kind in _TECHNOLOGY_FIELDS
        ]
    entities = _entities(rule, groups, technologies)
    if "project" in rule.tags and (project := _PROJECT_NAME.search(groups.get("x", ""))):
        entities.append((project["name"], "project"))
        profile.append(("facts.technical_context.current_projects[]", project["name"]))
        profile.append(("current_projects[]", project["name"]))
    if any(path.endswith("challenges[]") for path, _ in profile) and not technologies:
        profile = [(path, value) for path, value in profile if not path.endswith("challenges[]")]
    content_words = (
        frozenset(fold(content).split())
        - set(fold(speaker.subject).split())
        - fold_all(language.stop_words)
    )
    today = speaker.said_at.date()
    starts = [moment.start for moment in moments if moment.start <= today]
    since = since_year(clause.text)
    return Statement(
        rule=rule,
        content=content,
        language=language,
        message_ids=[speaker.message_id],
        importance=rule.importance,
        confidence=rule.confidence,
        tags=list(rule.tags),
        keywords=_keywords(groups, entities, language),
        entities=entities,
        attributes={key: value for key, value in attributes.items() if value},
        profile=[(path, value) for path, value in profile if value],
        words=content_words,
        topic=groups.get("x") or content,
        places={key: groups[key] for key in ("place", "origin") if groups.get(key)},
        valid_from=starts[0] if starts else since,
    )


def _attribute(key: str, groups: dict[str, str]) -> str:
    name, colon, template = key.partition(":")
    return f"{name}:{fold(fill(template, groups))}" if colon else name


def _style_fields(style: dict[str, str]) -> list[tuple[str, str]]:
    fields = []
    if length := style.get("answer_length"):
        fields.append(("preferences.response_style", length))
        concise = {"short": "concise", "detailed": "detailed"}[length]
        fields.append(("facts.preferences.communication_style", concise))
    if language := style.get("answer_language"):
        fields.append(("preferences.response_language", language))
    if form := style.get("answer_format"):
        fields.append(("preferences.response_format", form))
    return fields


def _entities(
    rule: Rule, groups: dict[str, str], technologies: list[Technology]
) -> list[tuple[str, str]]:
    found = [(groups[key], kind) for key, kind in rule.entities.items() if groups.get(key)]
    if "family" in rule.tags and (person := _PERSON.search(groups.get("x", ""))):
        found.append((person["name"] or person["vi"], "person"))
    return found + [(technology.name, "topic") for technology in technologies]


def _keywords(
    groups: dict[str, str], entities: list[tuple[str, str]], language: Language
) -> list[str]:
    words = dict.fromkeys(name.casefold() for name, _ in entities)
    for key in ("job", "thing", "x"):
        for word in re.findall(r"[^\W_][\w+#'-]*", groups.get(key, "").casefold()):
            if len(word) > 2 and word not in language.stop_words:
                words.setdefault(word)
    return list(words)[:8]


def _how_to(sentence: str, language: Language, speaker: Speaker) -> Statement | None:
    """A technical "how do I…" is an event of little weight."""
    match = language.how_to.match(sentence)
    technologies = find_technologies(sentence)
    if not match or not technologies:
        return None
    rule = Rule(
        "how_to",
        language.how_to,
        "question",
        language.phrases.asked,
        0.3,
        "medium",
        tags=("question",),
    )
    groups = {"s": speaker.subject, "x": sentence}
    statement = _make(rule, groups, Clause(sentence), [], language, speaker)
    return statement
