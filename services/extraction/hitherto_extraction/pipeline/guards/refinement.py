"""Decides whether a new wording only adds to the old one.

An update keeps the identity of a memory, so it may only add: every word, number and name of the old
wording remains, up to inflection, about the same subject, and nothing is denied, opposed or
exchanged. These are the guards of de-duplication (`differences`), applied in one direction. The
messages behind the update must contain the addition. A removal or replacement is a contradiction,
for which a reply has another key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto_extraction.pipeline.guards.statement import differences
from hitherto_extraction.pipeline.guards.subjects import USER, subject
from hitherto_extraction.pipeline.guards.support import JoinedWords, unspaced
from hitherto_extraction.pipeline.guards.tokens import NUMBER, UNCASED, Token, tokenise

_MAY_GROW = ("number", "date", "name", "sign")
"""Kinds of differences that may be mere additions."""
_OWN_RULE = "wording"
_USERS = "用户 用戶 使用者 ユーザー 사용자 ผู้ใช้ उपयोगकर्ता المستخدم مستخدم המשתמש".split()
_POSSESSIVES = ("的", "の", "의", "之")


@dataclass(frozen=True, slots=True)
class Refinement:
    """The objections to an update.

    Attributes:
        objections: As "kind: what"; empty if there are none.
        supported: Whether the wording may be right despite an objection: the messages contain half
            of it, and it contains half of the old wording.
    """

    objections: tuple[str, ...]
    supported: bool


def refinement(old: str, new: str, said: JoinedWords) -> Refinement:
    """The objections to replacing `old` by `new`, on the evidence of `said`.

    Kinds: those of `differences`, lost, unsupported, denied.
    """
    before, after = tokenise(old), tokenise(new)
    found = [each for each in differences(old, new) if not _is_addition(each, before, after)]
    found += [f"lost: {token.text}" for token in JoinedWords.of(new).lacking(before)]
    if _added_runs(unspaced(before), unspaced(after)) is None:
        found.append("lost: characters")
    if _has_another_owner(old, new):
        found.append("subject: somebody of the user's")
    found += unsupported(new, old, said)
    found += [
        f"denied: {token.text}" for token in said.only_denied(JoinedWords.of(old).lacking(after))
    ]
    return Refinement(
        tuple(found),
        supported=bool(found) and said.bears_out(new, old) and JoinedWords.of(new).holds_half(old),
    )


def unsupported(new: str, old: str, said: JoinedWords) -> list[str]:
    """What `new` says beyond `old` that was not `said`, as "unsupported: what".

    Every word, number and run of characters counts, up to inflection.
    """
    before, after = tokenise(old), tokenise(new)
    known = JoinedWords.of(old)
    found = [token.text for token in said.lacking(known.lacking(after))]
    found += sorted(said.lacking_numbers(after) & known.lacking_numbers(after))
    whole = unspaced(after)
    readings = _added_runs(unspaced(before), whole) or ([whole] * bool(whole),) * 2
    strange = [[run for run in reading if said.lacks_run(run)] for reading in readings]
    fewest: list[str] = min(strange, key=len)
    return [f"unsupported: {each}" for each in [*found, *fewest]]


def _is_addition(difference: str, before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Whether a difference is only an addition to everything that was there."""
    kind, _, sides = difference.partition(": ")
    if kind == _OWN_RULE:
        return True
    if kind == "subject":
        return _subject_grew(before, after)
    return kind in _MAY_GROW and sides.startswith("- / ")


def _subject_grew(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Whether a person's relation is only named more precisely ("her sister Mai")."""
    (one, first), (two, now) = subject(before, loose=False), subject(after, loose=False)
    if one is None or two is None:
        return False
    owned = first != USER and first.endswith(("'s", "s'"))
    return owned and first == now and set(one) < set(two)


def _added_runs(old: str, new: str) -> tuple[list[str], list[str]] | None:
    """The runs of characters that `new` has beyond `old`, read from either end.

    The two readings differ if a character repeats. None: `new` does not contain `old` in order.
    """
    forward, backward = _runs(old, new), _runs(old[::-1], new[::-1])
    if forward is None or backward is None:
        return None
    return forward, [run[::-1] for run in backward]


def _runs(old: str, new: str) -> list[str] | None:
    found, run, at = [], "", 0
    for ch in new:
        if at < len(old) and old[at] == ch:
            at += 1
            if run:
                found.append(run)
            run = ""
        else:
            run += ch
    if at < len(old):
        return None
    return [*found, run] if run else found


def _has_another_owner(old: str, new: str) -> bool:
    """Whether a person or thing of the user's took the place of the user.

    For scripts without subjects that can be read from the word order: compares what follows the
    word for the user, or precedes it where it is the second word of a pair.
    """
    for user in _USERS:
        if user not in old or user not in new:
            continue
        behind, was = new.partition(user)[2], old.partition(user)[2]
        if behind.lstrip().startswith(_POSSESSIVES) and not was.lstrip().startswith(_POSSESSIVES):
            return True
        if _before(new, user) != _before(old, user):
            return True
    return False


def _before(text: str, user: str) -> str:
    """The word before the user's, in scripts with spaces."""
    words = [token.text for token in tokenise(text) if token.kind in (UNCASED, NUMBER)]
    at = words.index(user) if user in words else 0
    return words[at - 1] if at else ""
