"""The terms of the keyword index, the same for writer and reader.

Letters and digits are compared in one form (`normalise.compatible`), words are casefolded and
stemmed by their script: plain Latin letters as English, Cyrillic as Russian, Arabic letters as
Arabic, article included (Snowball). The same rule applies on both sides, so for other languages in
those letters it only costs precision. Of words at an apostrophe, short ones that only lead or end a
longer one are left out: "l'université", "İstanbul'da". A word with diacritics is kept as it is and
again without them, so that "Ha Noi" finds "Hà Nội" while "Hà Nội" prefers itself. Scripts written
without spaces become overlapping pairs of characters (Han, Kana, Hangul, Thai, Lao, Khmer,
Burmese); a question of one such character is looked up in the pairs, see `lone_characters`. Nothing
depends on a database extension.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice

from hitherto_shared.text.normalise import compatible, nfc, plain_letters
from hitherto_shared.text.tokens import TOKEN, UNSPACED
from hitherto_shared.text.word_forms import forms, stem

MAX_TERM = 64
_MAX_WORD = 4 * MAX_TERM
MAX_TERMS = 4_000
"""Maximum terms per text: frequencies are 16-bit, and the end of a long text adds nothing."""

# What `TOKEN` finds in ASCII, in a third of the time.
_ASCII_WORD = re.compile("[0-9A-Za-z]+(?:'[0-9A-Za-z]+)*")
_APOSTROPHE = re.compile("['`\u00b4\u02b9\u02bb\u02bc\u0374\u1fef\u1ffd\u2018\u2019\u2032\uff07]")
_ENDINGS = frozenset("d em ll m re s t ve".split())
"""What follows an English apostrophe."""
_LONGEST_SHORT = 4
"""Letters of what leads or ends another word at an apostrophe: "dell'arte", "Ankara'dan"."""
_STOP_WORDS = frozenset(
    "a about an and are as at be been but by can could did do does for from had has have he her "
    "him his how i if in into is it its me my of on or our she so than that the their them then "
    "there they this to us was we were what when where which who why will with would you your "
    "là và của có không được cho với một các những này đó thì mà ở tôi bạn gì nào".split()
)
_NOT_ASKED = _STOP_WORDS.union(
    "after any because before between both down during each just many more most much off other out "
    "over some such through too under until up very while".split()
)
"""Words that a question does not look up; the questions that a memory answers may add some."""
_LONE = re.compile(f"[{UNSPACED}]")


def _language(word: str) -> str | None:
    """The stemming language for a word of a script other than Latin, if any."""
    if "\u0400" <= word[0] <= "\u04ff":
        return "russian"
    return "arabic" if "\u0620" <= word[0] <= "\u06ff" else None


def _without_joined(word: str) -> str:
    """An Arabic word without "and", "so", "in", "like" and "for" joined to its article."""
    if len(word) > 5 and word[0] in "وفبك" and word[1:3] == "ال":
        return word[1:]
    return word[2:] if len(word) > 4 and word.startswith("لل") else word


def _told_apart(word: str) -> list[str]:
    """The parts of a word at its apostrophes, without those that only lead or end a longer one.

    In Cyrillic the apostrophe is a letter, and an English ending belongs to its word.
    """
    *_, last = parts = [part for part in word.split("'") if part]
    if len(parts) < 2 or last in _ENDINGS or _language(word) == "russian":
        return [word]
    longest = max(map(len, parts))
    return [part for part in parts if len(part) > _LONGEST_SHORT or len(part) == longest]


@lru_cache(maxsize=16_384)
def _word_terms(word: str) -> tuple[str, ...]:
    # Casefolding decomposes some letters ("ǰ"), and a term has one spelling.
    lowered = nfc(word.casefold())
    if lowered.endswith("'s"):
        lowered = lowered[:-2]
    if "'" not in lowered:
        return _part_terms(lowered)
    return tuple(term for part in _told_apart(lowered) for term in _part_terms(part))


def _part_terms(lowered: str) -> tuple[str, ...]:
    if lowered.isascii():
        return (stem(lowered)[:MAX_TERM],)
    if language := _language(lowered):
        # Points of an Arabic word are removed first, the breve of a Russian one last, because
        # endings have it.
        lowered = _without_joined(plain_letters(lowered)) if language == "arabic" else lowered
        lowered = stem(lowered, language) or lowered
    plain = plain_letters(lowered)
    if plain == lowered:
        return (lowered[:MAX_TERM],)
    return (lowered[:MAX_TERM], stem(plain)[:MAX_TERM] if plain.isascii() else plain[:MAX_TERM])


@lru_cache(maxsize=16_384)
def _content_terms(word: str) -> tuple[str, ...]:
    """The terms of a word, none of a stop word."""
    return () if word.casefold() in _STOP_WORDS else _word_terms(word)


@lru_cache(maxsize=16_384)
def _asked_terms(word: str) -> tuple[str, ...]:
    """The terms of a word that a question looks up."""
    return () if word.casefold() in _NOT_ASKED else _word_terms(word)


def _in_one_form(text: str) -> str:
    """The text with one form of each letter, digit and apostrophe."""
    if text.isascii():
        return text.replace("`", "'")
    # Before the other forms: an acute of its own becomes a space with an accent there.
    return _APOSTROPHE.sub("'", compatible(_APOSTROPHE.sub("'", text)))


def _run_terms(run: str) -> list[str]:
    pairs = min(len(run) - 1, MAX_TERMS)
    return [run[i : i + 2] for i in range(pairs)] or [run]


def _sequence(text: str, of_word: Callable[[str], Sequence[str]] = _word_terms) -> list[str]:
    text = _in_one_form(text)
    if text.isascii():
        # Most texts, and searches compare hundreds: without a step of Python for each word.
        words = _ASCII_WORD.findall(text)
        if max(map(len, words), default=0) > _MAX_WORD:
            words = [word[:_MAX_WORD] for word in words]
        return list(islice(chain.from_iterable(map(of_word, words)), MAX_TERMS))
    found: list[str] = []
    for match in TOKEN.finditer(text):
        if len(found) >= MAX_TERMS:
            break
        kind, token = match.lastgroup, match.group()
        if kind == "word":
            found += of_word(token[:_MAX_WORD])
        elif kind == "run":
            found += _run_terms(token)
        else:
            found.append(token)
    return found[:MAX_TERMS]


def count_terms(*texts: str) -> Counter[str]:
    """How often each term occurs in the texts together, as the writer stores it."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_sequence(text))
    return counts


def content_terms(text: str) -> list[str]:
    """The distinct terms of a text without stop words, unless it has nothing else."""
    return list(dict.fromkeys(_sequence(text, _content_terms)))


def query_terms(query: str) -> list[str]:
    """The distinct terms of a question, without stop words unless it has nothing else."""
    found = _sequence(query, _asked_terms) or _sequence(query)
    return list(dict.fromkeys(found))


def looked_up_terms(query: str) -> list[str]:
    """`query_terms`, then their other forms ("went" for "go")."""
    asked = query_terms(query)
    others = [form for term in asked for form in forms(term)]
    return list(dict.fromkeys([*asked, *others]))


def lone_characters(terms: Iterable[str]) -> list[str]:
    """Those of a question's terms that are one character of a script without spaces.

    A text has a term of its own for such a character only where it stands alone ("猫"); elsewhere
    the character is the first or the second of the pairs it stands in ("黒猫", "猫が").
    """
    return [term for term in terms if len(term) == 1 and _LONE.match(term)]


def occurrences(counts: Mapping[str, int], term: str) -> int:
    """How often a question's term occurs in the text with these `counts` by `count_terms`."""
    found = counts.get(term, 0)
    if lone_characters([term]):
        pairs = [(pair, count) for pair, count in counts.items() if len(pair) == 2]
        # Inside a run, a character is the second of one pair and the first of the next.
        found += max(
            sum(count for pair, count in pairs if pair[0] == term),
            sum(count for pair, count in pairs if pair[1] == term),
        )
    return found
