"""The engine: a message becomes sentences, clauses, and what the first rule that fits writes.

It knows no language itself; `language` holds the tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime

from hitherto_extraction.provider.offline.language import ClauseRule, LanguageTable
from hitherto_extraction.provider.offline.meanings import MEANINGS, Meaning
from hitherto_extraction.provider.offline.technologies import find_technologies
from hitherto_extraction.provider.offline.text import (
    cut,
    fold,
    has_capitals,
    is_planted,
    is_sarcastic,
    own_words,
    sentences,
)
from hitherto_shared.vocabulary.relative_dates import RelativeDate, resolve_dates, since_year

_EVENTS = ("question", "problem", "learning")
_EVENT_LENGTH = 200
_VALUE_LENGTH = 400
_KINDS = {"place": "place", "origin": "place", "name": "person", "company": "company"}
_FIELDS = {
    "language": "facts.technical_context.programming_languages[]",
    "framework": "facts.technical_context.frameworks[]",
}
_STYLE_FIELDS = {
    "length": "preferences.response_style",
    "format": "preferences.response_format",
    "language": "preferences.response_language",
}
_CALLED = re.compile(
    r"\b(?:called|named|tên là|gọi là|tên) (?P<name>[^\s,.;]+(?: [^\W\d_a-zà-ỹđ][^\s,.;]*){0,2})"
)
_GAP = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[^\W_][\w+#'-]{2,}")


@dataclass(frozen=True, slots=True)
class Speaker:
    """The speaker, place and time. `said_at` is in the speaker's time zone."""

    subject: str
    message_id: str
    said_at: datetime


@dataclass(slots=True)
class UserStatement:
    """A statement of the speaker about themselves.

    Attributes:
        slots: Folded value of each slot.
        profile: Dotted path and value, in order; a path that ends in `[]` appends.
        topic: What the sentence is about, without its subject and verb.
    """

    meaning: Meaning
    content: str
    message_ids: list[str]
    confidence: str
    slots: dict[str, str]
    profile: list[tuple[str, str]]
    entities: list[tuple[str, str]]
    keywords: list[str]
    topic: str
    valid_from: date | None


@dataclass(slots=True)
class MessageReading:
    """The result for one message.

    Attributes:
        denials: Slots with a value that is denied, or no longer true.
        questions: Sentences that ask something.
    """

    statements: list[UserStatement] = field(default_factory=list)
    denials: list[tuple[dict[str, str], str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def read(text: str, language: LanguageTable, speaker: Speaker) -> MessageReading:
    """Read one message."""
    reading = MessageReading()
    if is_planted(text) or is_sarcastic(text):
        # An order to the memory poisons its neighbours too: "save this: I am…".
        return reading
    grammar = language.grammar
    text = own_words(text)
    cased = has_capitals(text)
    for sentence in sentences(text):
        loud = sentence.isupper() and len(sentence) > 3
        spoken = language.changed(sentence.lower() if loud else sentence, "spoken")
        opened = _trimmed(spoken, language)
        if grammar["refuse_rest"].match(opened):
            break
        if grammar["refuse"].search(spoken):
            continue
        bare = re.sub(r"[\s)\"']+$", "", sentence)
        asked = bare.endswith(("?", "？")) or bool(grammar["question"].search(opened))
        if asked:
            reading.questions.append(sentence)
            _read_how_to(sentence, language, speaker, reading)
        for part in _clauses(re.sub(r"[?？]+$", "", spoken).strip(), language):
            clause = _trimmed(part, language)
            requested = asked and bool(grammar["request"].match(clause))
            if clause and (requested or not (asked and grammar["asks"].search(clause))):
                said = _Clause(clause, cased and not loud, requested)
                _read_clause(said, asked, language, speaker, reading)
    return reading


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause to be read.

    Attributes:
        cased: Whether the writer uses capitals, so that they distinguish names from common nouns.
        requested: Whether it requests something from the assistant ("could you always…?").
    """

    text: str
    cased: bool
    requested: bool = False


def _clauses(sentence: str, language: LanguageTable) -> list[str]:
    """Divide a sentence; a clause that begins with its verb has the subject of the previous one."""
    grammar = language.grammar
    found, *rest = grammar["split"].split(sentence)
    clauses = [found]
    for gap, part in zip(rest[::2], rest[1::2], strict=True):
        if not grammar["continues"].match(part):
            clauses.append(part)
        elif grammar["speaks"].match(clauses[-1]):
            clauses.append(language.phrases["subject"] + part)
        else:
            clauses[-1] += gap + part
    return [clause.strip(" ,") for clause in clauses]


def _trimmed(clause: str, language: LanguageTable) -> str:
    """A clause without fillers at its ends, and with its subject."""
    while match := language.grammar["opening"].match(clause):
        clause = clause[match.end() :]
    before = ""
    while clause != before:
        before, clause = clause, language.grammar["closing"].sub("", clause).strip()
    return language.changed(clause, "subject")


def _read_clause(
    clause: _Clause, asked: bool, language: LanguageTable, speaker: Speaker, reading: MessageReading
) -> None:
    hedge = language.grammar["hedge"].match(clause.text)
    plain, moments = resolve_dates(
        clause.text[hedge.end() if hedge else 0 :], language.code, speaker.said_at.date()
    )
    clause = _Clause(_trimmed(plain, language), clause.cased, clause.requested)
    statement = _first_fit(clause, moments, language, speaker)
    denied = language.grammar["denied"].match(clause.text)
    if statement:
        if hedge:
            statement.confidence = "medium"
        reading.statements.append(statement)
    elif denied and not asked:
        subject = language.phrases["subject_is" if denied["be"] else "subject"]
        positive = _Clause(subject + clause.text[denied.end() :], clause.cased)
        if found := _first_fit(positive, [], language, speaker):
            reading.denials.append((found.slots, speaker.message_id))


def _first_fit(
    clause: _Clause, moments: list[RelativeDate], language: LanguageTable, speaker: Speaker
) -> UserStatement | None:
    for rule in language.rules:
        if clause.requested and rule.meaning is not MEANINGS["answers"]:
            continue
        if rule.meaning.capitals and not clause.cased:
            continue
        if match := rule.pattern.match(clause.text):
            said = {key: _tidy(value) for key, value in match.groupdict().items() if value}
            if all(_fits(part, value, rule, clause, language) for part, value in said.items()):
                if "trade" in said:
                    said["job"] = said.pop("trade")
                return _statement(rule, said, clause, moments, language, speaker)
    return None


def _tidy(value: str) -> str:
    return cut(value.strip(" ,.;:!?…-"), _VALUE_LENGTH)


def _fits(
    part: str, value: str, rule: ClauseRule, clause: _Clause, language: LanguageTable
) -> bool:
    """Whether a part of a clause can have the role that its rule gives it."""
    if part == "tech":
        return bool(find_technologies(value))
    if part == "job":
        return language.grammar["job"].search(value) is not None
    if part not in _KINDS:
        return True
    refused = language.grammar.get(f"not_{part}")
    if not value or (refused and refused.match(value)):
        return False
    if part in ("place", "name") and rule.meaning.capitals and find_technologies(value):
        return False
    capitals = [not word[0].islower() for word in value.split()]
    if not clause.cased:
        return True
    if part == "company":
        # "a children's hospital" is no employer with a name.
        return any(capitals)
    return capitals[0] and (part != "name" or capitals[-1])


def _statement(
    rule: ClauseRule,
    said: dict[str, str],
    clause: _Clause,
    moments: list[RelativeDate],
    language: LanguageTable,
    speaker: Speaker,
) -> UserStatement:
    meaning = rule.meaning
    groups = {key: _value(key, value, clause, language) for key, value in said.items()}
    groups["s"] = speaker.subject
    if not rule.says.startswith("{s}") and speaker.subject == language.subject:
        groups["s"] = speaker.subject[0].lower() + speaker.subject[1:]
    content = language.changed(_filled(rule.says, groups), "written").rstrip(" .")
    if moments:
        content += f" ({', '.join(moment.text for moment in moments)})"
    content = content[:1].upper() + content[1:] + ("" if content.endswith(("?", "？")) else ".")
    if "tech" in groups:
        groups["x"] = groups["tech"]
    slots = {_slot(key, groups): fold(_filled(text, groups)) for key, text in meaning.slots.items()}
    profile = [(path, _filled(text, groups)) for path, text in meaning.profile.items()]
    technologies = find_technologies(clause.text)
    if "preference" in meaning.tags:
        style = _style(clause.text, language)
        slots |= {f"answer_{key}": fold(value) for key, value in style.items()}
        profile += [(_STYLE_FIELDS[key], value) for key, value in style.items()]
        manner = {"short": "concise"}.get(style.get("length", ""), style.get("length", ""))
        profile.append(("facts.preferences.communication_style", manner))
    if meaning.technologies:
        profile += [
            (_FIELDS[each.kind], each.name) for each in technologies if each.kind in _FIELDS
        ]
    entities = [(groups[part], kind) for part, kind in _KINDS.items() if groups.get(part)]
    if "project" in meaning.tags and (project := _CALLED.search(groups.get("x", ""))):
        entities.append((project["name"], "project"))
        paths = ("facts.technical_context.current_projects[]", "current_projects[]")
        profile += [(path, project["name"]) for path in paths]
    if not technologies:
        profile = [(path, value) for path, value in profile if not path.endswith("challenges[]")]
    entities += [(each.name, "topic") for each in technologies]
    about = " ".join(groups.get(part, "") for part in ("job", "thing", "x", "asked")).casefold()
    keywords = [name.casefold() for name, _ in entities] + [
        word for word in _WORD.findall(about) if word not in language.stop_words
    ]
    starts = [moment.start for moment in moments if moment.start <= speaker.said_at.date()]
    return UserStatement(
        meaning=meaning,
        content=cut(content, _EVENT_LENGTH) if meaning.type in _EVENTS else content,
        message_ids=[speaker.message_id],
        confidence=meaning.confidence,
        slots={key: value for key, value in slots.items() if value},
        profile=[(path, value) for path, value in profile if value],
        entities=entities,
        keywords=list(dict.fromkeys(keywords))[:8],
        topic=groups.get("x") or content,
        valid_from=starts[0] if starts else since_year(clause.text),
    )


def _value(part: str, value: str, clause: _Clause, language: LanguageTable) -> str:
    """A part of a clause in its written form."""
    if part in _KINDS:
        shouted = value.isupper() and len(value) > 4
        capitals = " ".join(word.capitalize() for word in value.split())
        return value if clause.cased and not shouted else capitals
    opens = part != "asked" and clause.text.startswith(value) and value[1:2].islower()
    if opens and not find_technologies(value.split(maxsplit=1)[0]):
        # It opened the sentence; inside ours it needs no capital.
        value = value[0].lower() + value[1:]
    if part == "rest":
        return f" {value}"
    if part == "asked":
        return value
    return value.lower() if part == "verb" else language.changed(value, "third")


def _filled(text: str, groups: dict[str, str]) -> str:
    return _GAP.sub(lambda match: groups.get(match.group(1), ""), text)


def _slot(key: str, groups: dict[str, str]) -> str:
    name, colon, text = key.partition(":")
    return name + colon + fold(_filled(text, groups))


def _style(clause: str, language: LanguageTable) -> dict[str, str]:
    """The answer style that a clause requests, if any."""
    reads = {key: pattern.search(clause) for key, pattern in language.style.items()}
    if not reads["about"]:
        return {}
    lengths = [key for key in ("short", "detailed") if reads[key]]
    forms = [key for key in ("bullet_points", "step_by_step") if reads[key] and not reads["not"]]
    found = {"length": "".join(lengths[:1]), "format": "".join(forms[:1]).replace("_", " ")}
    if reads["language"]:
        found["language"] = reads["language"]["language"]
    return {key: value for key, value in found.items() if value}


def _read_how_to(
    sentence: str, language: LanguageTable, speaker: Speaker, reading: MessageReading
) -> None:
    """A technical "how do I…" is an event of little weight."""
    pattern = language.grammar["how_to"]
    if pattern.match(sentence) and find_technologies(sentence):
        says = language.phrases["asked"].replace("{x}", "{asked}")
        rule, clause = ClauseRule(MEANINGS["question"], says, pattern), _Clause(sentence, True)
        found = _statement(rule, {"asked": sentence}, clause, [], language, speaker)
        reading.statements.append(found)
