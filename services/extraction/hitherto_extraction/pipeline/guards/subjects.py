"""Finds the subject at the beginning of a statement, the names in it, and who it is about."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_extraction.pipeline.guards.quantities import is_date_word, is_number_word
from hitherto_extraction.pipeline.guards.tokens import (
    POINT,
    SIGN,
    UNCASED,
    WORD,
    Token,
    key,
    tokenise,
    without_possessive,
)
from hitherto_shared.vocabulary.users import USER_WORDS

USER = "user"

_SELF = frozenset(word for word in USER_WORDS if not word.endswith(("'s", "s'"))) | {
    *"i tôi mình tớ".split()
}
_PAIRS_FOR_USER = frozenset([("người", "dùng"), ("nguoi", "dung"), ("khách", "hàng")])
_DETERMINERS = frozenset("the a an this that el la le der die das l'".split())
_LEADS = frozenset(
    "in on at for since as during when after before from by vào trong từ khi để với".split()
)
"""Words that open a phrase before the subject ("In 2023, Caroline …")."""
_VERBS = frozenset(
    "is are was were be been am has have had having do does did can could will would shall should "
    "may might must like likes love loves enjoy enjoys prefer prefers want wants need needs live "
    "lives work works use uses know knows think thinks plan plans go goes went speak speaks own "
    "owns play plays study studies learn learns make makes made get gets got take takes took give "
    "gave say says said tell told feel feels felt buy bought sell sold see saw come came become "
    "became begin began find found grow grew hold held keep kept leave left lose lost meet met run "
    "ran teach taught win won write wrote read eat eats ate drink drinks drank dislike dislikes "
    "hate hates not never no don't doesn't didn't isn't aren't wasn't can't cannot won't "
    "là có thích ghét yêu muốn cần sống ở làm đang đã sẽ không chưa chẳng rất cũng vẫn luôn thường "
    "bị được phải nên biết học dùng sử nói đi mua bán ăn uống chơi dự định tên vừa mới khong co "
    "la thich es son está tiene vive quiere gusta est sont a habite aime ist sind hat mag wohnt "
    "любит живёт работает имеет хочет".split()
)
ADVERBS = frozenset(
    "also really currently now always often usually still already just recently generally "
    "typically strongly both".split()
)
_STARTERS = frozenset(
    "the a an this that these those my his her their our its he she they it we you i in on at for "
    "since as during when after before from by with and but or if no not there here some all every "
    "each one user users other another being having while because although "
    "người khách trong khi từ vào để với có không các những một tôi mình chị anh em bạn ông bà "
    "cô chú bác mẹ bố cha con hiện đã đang sẽ chưa".split()
)
"""Words that begin a sentence with a capital and are not names."""
_NO_FIRST_NAMES = _STARTERS | _VERBS | ADVERBS | _DETERMINERS
"""Words that begin a sentence with a capital and prove no name."""
_NEVER_NAMES = USER_WORDS.union("i i'm i've i'd i'll".split())
_JOINS = frozenset([",", "&", "/", "and", "or", "và", "hoặc", "y", "et", "und", "и"])
_LONGEST_SUBJECT = 6

_RELATIVES = frozenset(
    "sister sisters brother brothers mother mom mum father dad parent parents wife husband partner "
    "girlfriend boyfriend fiancé fiancée son sons daughter daughters child children kid kids baby "
    "friend friends colleague colleagues coworker boss manager neighbour neighbor roommate aunt "
    "uncle cousin nephew niece grandmother grandma grandfather grandpa dog cat pet "
    "chị anh em vợ chồng mẹ bố cha ba má bà ông cô chú dì cậu bác bạn sếp chó mèo "
    "hermana hermano madre padre esposa esposo marido hija hijo amiga amigo novia novio jefe jefa "
    "sœur frère mère père femme mari fille fils ami amie schwester bruder mutter vater frau mann "
    "tochter sohn freund freundin".split()
)


def is_name(token: Token, lower_cased: frozenset[str]) -> bool:
    """Whether a token is part of a proper name; `lower_cased` are words without a capital."""
    word = token.lower
    if not token.capital or word in _NEVER_NAMES or is_date_word(token):
        return False
    if not token.first:
        return True
    plain = without_possessive(word)
    # At the start of a sentence a capital proves nothing: a word is not a name if either text also
    # has it in lower case, or if it is a known non-name.
    return plain not in _NO_FIRST_NAMES and plain not in lower_cased


def small_words(*texts: Sequence[Token]) -> frozenset[str]:
    """The words that occur in the texts without a capital."""
    return frozenset(
        token.lower for text in texts for token in text if token.kind == WORD and not token.capital
    )


def names(
    tokens: Sequence[Token], lower_cased: frozenset[str], *, loose: bool
) -> list[tuple[str, ...]]:
    """The proper names in order; a list of names ("Ben and Anna") is one sorted entry.

    Order counts, because "from Paris to Berlin" is not "from Berlin to Paris"; the order within a
    list does not. "Người dùng" is the user and not a name.
    """
    found: list[list[list[str]]] = []
    previous = "other"
    for token in tokens:
        if is_name(token, lower_cased):
            word = without_possessive(key(token, loose=loose))
            if previous == "name":
                found[-1][-1].append(word)
            elif previous == "join" and found:
                found[-1].append([word])
            else:
                found.append([[word]])
            previous = "name"
        else:
            joined = previous in ("name", "join") and token.lower in _JOINS
            previous = "join" if joined else "other"
    return [tuple(sorted(" ".join(phrase) for phrase in group)) for group in found]


def subject(tokens: Sequence[Token], *, loose: bool) -> tuple[tuple[str, ...] | None, str]:
    """The words of the subject, in alphabetical order, and the first of them in the text.

    The words are None if no verb was recognised. A statement that begins with its verb ("Prefers
    short answers") is about the user, as are "I" and "tôi".
    """
    words = _first_clause(tokens, loose=loose)
    if not words:
        return None, ""
    if words[0] in _VERBS:
        return (USER,), USER
    taken: list[str] = []
    for word in words[: _LONGEST_SUBJECT + 1]:
        if taken and (word in _VERBS or _looks_like_verb(word, taken)):
            return tuple(sorted(taken)), taken[0]
        if word not in ADVERBS:
            taken.append(word)
    return None, words[0]


def _looks_like_verb(word: str, taken: Sequence[str]) -> bool:
    if word.endswith("ed") and len(word) > 3:
        return True
    third_person = word.endswith("s") and not word.endswith(("ss", "'s", "s'")) and len(word) > 2
    return third_person and len(taken) == 1 and not taken[0].endswith("'s")


def _first_clause(tokens: Sequence[Token], *, loose: bool) -> list[str]:
    start = 0
    if tokens and tokens[0].lower in _LEADS:
        comma = next((at for at, token in enumerate(tokens) if token.text == ","), None)
        start = 0 if comma is None else comma + 1
    words: list[str] = []
    for token in tokens[start:]:
        if token.kind in (POINT, SIGN):
            if token.text in ".!?。" and words:
                break
            continue
        if token.kind in (WORD, UNCASED):  # numbers are compared separately, in any spelling
            words.append(key(token, loose=loose))
    joined: list[str] = []
    for word in words:
        if joined and (joined[-1], word) in _PAIRS_FOR_USER:
            joined[-1] = USER
        elif (not joined and word in _DETERMINERS) or is_number_word(word):
            continue
        else:
            joined.append(USER if word in _SELF else word)
    return joined


def speaks_of_another(one: str, other: str) -> bool:
    """Whether the subjects of two statements are certainly two people.

    What one person does does not contradict what another one does. Certain are only two names, or
    a person and that person's relative. "Ana" and "the user" prove nothing, because they may be one
    person.
    """
    left, right = tokenise(one), tokenise(other)
    a, b = _subject(left), _subject(right)
    if a is None or b is None:
        return False
    kin_a, kin_b = _RELATIVES & a, _RELATIVES & b
    if kin_a or kin_b:
        # "User's sister" and "Anna" may be one person, "user's sister" and "user" are not.
        plain = b if kin_a and not kin_b else a
        return (bool(kin_a) != bool(kin_b) and USER in plain) or (
            bool(kin_a) and bool(kin_b) and kin_a.isdisjoint(kin_b)
        )
    if len(a) > 1 or len(b) > 1 or a == b:
        return False
    lower_cased = small_words(left, right)
    return all(
        any(wanted == frozenset(group) for group in names(tokens, lower_cased, loose=False))
        for tokens, wanted in ((left, a), (right, b))
    )


def _subject(tokens: Sequence[Token]) -> frozenset[str] | None:
    words, _ = subject(tokens, loose=False)
    return frozenset(words) if words else None
