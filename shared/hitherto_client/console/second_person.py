"""What is remembered about a person, as one says it to that person: you live in Leith.

Memories are stored in the third person, for an assistant. Only sentences whose grammar is certain
are turned; any other is shown as it is stored.
"""

from __future__ import annotations

import re

_IRREGULAR = {
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "goes": "go",
    "isn't": "aren't",
    "wasn't": "weren't",
    "hasn't": "haven't",
    "doesn't": "don't",
}
_AS_THEY_ARE = frozenset(
    "had did can could may might must should will would used"
    " got made met bought built began became came chose drove ate fell found flew gave grew kept"
    " knew left lost ran rode said saw sold spent spoke stood swam taught thought told took went"
    " won wrote read put set".split()
)
"""Verbs that are the same for everybody, besides those that end in -ed."""
_REGULAR = frozenset(
    "add aim allow ask attend avoid bake become begin believe belong bring build buy call care"
    " change come commute consider contribute cook cycle dance deploy design develop dislike do"
    " drink drive earn eat enjoy expect feel find finish fly follow get give grow hate help hold"
    " hope intend keep know lack lead learn let like listen live look love maintain make manage"
    " mean meet move need own paint pay plan play practise practice prefer program read receive"
    " remember ride row run say see seek sell send share sing sleep speak spend start stay struggle"
    " study suffer support swim take talk teach tend think train travel try understand use visit"
    " volunteer wait wake walk want watch wear wish work worry write".split()
)
"""Verbs whose form with -s is not read as a noun after "User"."""
_SUBJECT = re.compile(r"(The user|User)('s)? ", re.IGNORECASE)
_VIETNAMESE = re.compile(r"(^|[.!?] )Người dùng (?!khác\b)")
_SOMEBODY_ELSE = re.compile(r"\b(he|she|him|his|her|hers|himself|herself|user|users)\b", re.I)
_RELATIVE = re.compile(r"\b(who|whose|which|that|because|when|while|if)\b", re.I)
_JOINED = re.compile(r"(\band|\bor|\bbut|;) ([a-z']+)\b")
_WORD = re.compile(r"[a-z']+")
_THEIRS = re.compile(r"\btheir\b")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


def to_second_person(text: str) -> str:
    """The statement, addressed to the person that it is about; as it is where that is unsure."""
    if text.startswith("Người dùng "):
        return _VIETNAMESE.sub(lambda found: f"{found[1]}Bạn ", text)
    # What follows a colon is quoted.
    said, colon, quoted = text.partition(": ")
    turned = [_turned(sentence) for sentence in _SENTENCE_END.split(said)]
    return " ".join(turned) + colon + quoted if all(turned) else text


def _turned(sentence: str) -> str:
    """The sentence in the second person; empty if it cannot be told how."""
    subject = _SUBJECT.match(sentence)
    if subject is None:
        return ""
    rest = sentence[subject.end() :]
    if _SOMEBODY_ELSE.search(rest):
        return ""
    if subject[2]:
        return f"Your {rest}"
    verb = _WORD.match(rest)
    own = _for_you(verb[0]) if verb else ""
    if not verb or not own:
        return ""
    others = rest[verb.end() :]
    # From a relative clause on, verbs and pronouns may be somebody else's.
    cut = found.start() if (found := _RELATIVE.search(others)) else len(others)
    mine = _JOINED.sub(lambda two: f"{two[1]} {_for_you(two[2]) or two[2]}", others[:cut])
    return f"You {own}{_THEIRS.sub('your', mine)}{others[cut:]}"


def _for_you(verb: str) -> str:
    """The form of a verb after "you"; empty if it is not known as a verb."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb in _AS_THEY_ARE or (verb.endswith("ed") and verb.isalpha() and verb.islower()):
        return verb
    stems = [verb.removesuffix("s")] if verb.endswith("s") else []
    stems += [verb.removesuffix("es")] if verb.endswith("es") else []
    stems += [f"{verb.removesuffix('ies')}y"] if verb.endswith("ies") else []
    return next((stem for stem in stems if stem in _REGULAR), "")
