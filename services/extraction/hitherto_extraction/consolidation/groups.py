"""Groups memories that may be merged: same tag, same subject, compatible types, at most 20."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.pipeline.guards.subjects import USER, subject
from hitherto_extraction.pipeline.guards.tokens import (
    UNCASED,
    WORD,
    Token,
    tokenise,
    without_possessive,
)
from hitherto_extraction.storage.consolidation import ConsolidationMark, Member
from hitherto_shared.offloading import end_if_given_up
from hitherto_shared.text.normalise import fold
from hitherto_shared.vocabulary.opposites import alternatives

MAX_ORIGINALS = 20
"""Maximum memories in one model call."""

_GO_TOGETHER = frozenset("preference feedback fact learning".split())
"""Types that models confuse. The others have rules of their own: context decays, decisions never
do, goals are achieved, personal details may be sealed."""
_ABOUT_STYLE = frozenset("preference feedback".split())
_PEOPLE = frozenset(
    "mother mom mum father dad parent parents sister sisters brother brothers wife husband spouse "
    "partner girlfriend boyfriend fiancé fiancée daughter daughters son sons child children kid "
    "kids baby aunt uncle niece nephew cousin cousins grandmother grandma grandfather grandpa "
    "friend friends colleague colleagues coworker coworkers boss manager team teammate teammates "
    "client clients customer customers neighbour neighbours neighbor neighbors roommate flatmate "
    "family people he she they it him her them cat cats dog dogs company employer "
    "mẹ má bố ba cha chị anh em vợ chồng con bạn sếp đồng nghiệp gái trai ông bà cô chú bác cậu dì "
    "hermana hermano madre padre mujer marido hija hijo amigo amiga sœur frère mère père femme "
    "mari fille fils ami amie schwester bruder mutter vater frau mann tochter sohn freund".split()
)
_STYLED = frozenset(
    "answer answers reply replies response responses message messages email emails text texts "
    "tone style voice writing language wording explanation explanations example examples sentence "
    "sentences paragraph paragraphs report reports document documents summary summaries code "
    "comment comments title titles format formatting length communication content output draft "
    "drafts letter letters post posts headline headlines bullet".split()
)
"""First words of a preference that are not names."""
_USERS_OWN = ("user's", "users'")
_USER_UNCASED = tuple(
    "用户 我 使用者 ユーザー 私 사용자 나는 저는 المستخدم أنا המשתמש אני ผู้ใช้ ฉัน उपयोगकर्ता मैं".split()
)

Subject = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Memories for one model call, the oldest first, and their subject."""

    members: tuple[Member, ...]
    subject: Subject


def plan_groups(
    members: Sequence[Member], *, taken: Collection[UUID], names: Collection[str]
) -> list[Group]:
    """Divide the memories of one tag into groups of at least two, each of one level of trust.

    Args:
        members: The memories, the oldest first.
        taken: Those that are in another group of this run.
        names: The user's names.

    Raises:
        GivenUp: It runs in a thread, and nobody waits for it any more.
    """
    alike: defaultdict[tuple[Subject, str, str], list[Member]] = defaultdict(list)
    for member in members:
        end_if_given_up()
        if member.memory_id not in taken:
            kind = "*" if member.type in _GO_TOGETHER else member.type
            about = subject_of(member.content, member.type, names)
            alike[about, kind, member.origin].append(member)
    return [
        Group(tuple(chunk), about)
        for (about, _, _), found in alike.items()
        for start in range(0, len(found), MAX_ORIGINALS)
        if len(chunk := found[start : start + MAX_ORIGINALS]) > 1
    ]


def fit_together(type_: str, other: str) -> bool:
    """Whether memories of two types may be merged."""
    return type_ == other or (type_ in _GO_TOGETHER and other in _GO_TOGETHER)


def subject_of(content: str, type_: str, names: Collection[str] = ()) -> Subject:
    """The subject of a memory; different keys are never merged.

    A memory is about its user unless it begins with a person ("The user's sister", "Lan").
    Preferences about answers are about the user too, whatever they begin with.
    """
    tokens = tokenise(content)
    if tokens and _uncased(tokens):
        return _of_uncased(tokens)
    words, first = subject(tokens, loose=False)
    found = words or ((first,) if _possessive(first) else ())
    if not found or set(found) & _called(names):
        return (USER,)
    others = {without_possessive(word) for word in found} & _PEOPLE
    about_user = USER in found or any(word in _USERS_OWN for word in found)
    if not others and (about_user or (type_ in _ABOUT_STYLE and not _named(tokens, found))):
        return (USER,)
    return tuple(sorted({word for word in found if word != USER and word not in _USERS_OWN}))


def fingerprint(members: Iterable[tuple[UUID, str]]) -> bytes:
    """A digest that is equal for the same memories with the same contents, in any order."""
    digest = hashlib.sha256()
    for memory_id, content in sorted(members, key=lambda pair: pair[0].int):
        digest.update(memory_id.bytes)
        digest.update(hashlib.sha256(content.encode()).digest())
    return digest.digest()


def mark_of(tag: str, members: Iterable[Member]) -> ConsolidationMark:
    """The record of a tag after consolidation."""
    left = [(each.memory_id, each.content) for each in members if tag in each.tags]
    return ConsolidationMark(tag, fingerprint(left), len(left))


def _called(names: Collection[str]) -> set[str]:
    return {part for name in names for part in (name.casefold(), *name.casefold().split()[:1])}


def _possessive(word: str) -> bool:
    return word.endswith(("'s", "s'")) and word not in _USERS_OWN


def _named(tokens: Sequence[Token], words: Sequence[str]) -> bool:
    """Whether one of the words of a subject is a name.

    The capital of a sentence's first word proves something only if that word is alone, as in "Anna
    prefers" and not in "Short answers are", and if it is no side of a contrast.
    """
    return any(
        token.capital
        and token.lower in words
        and token.lower.removesuffix("'s") not in _STYLED
        and (not token.first or (len(words) == 1 and not alternatives([token.lower])))
        for token in tokens
    )


def _uncased(tokens: Sequence[Token]) -> bool:
    letters = sum(len(token.text) for token in tokens if token.kind == WORD)
    return sum(len(token.text) for token in tokens if token.kind == UNCASED) > letters


def _of_uncased(tokens: Sequence[Token]) -> Subject:
    """The subject of a text in a script without capitals: its first words."""
    found = [token.text for token in tokens if token.kind == UNCASED]
    if found[0].startswith(_USER_UNCASED):
        return (USER,)
    # Scripts with spaces give words, others give clauses.
    return ("~", fold(found[0] if len(found) > 3 else found[0][:2]))
