"""Decides which summaries contexts and suggestions leave out: those that repeat a withheld memory.

Summaries are not written anew when a memory learnt from their conversation is forgotten or sent to
review. Messages behind such a memory are left out by their sources; a summary has none of its own,
so its words are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hitherto_shared.models import Profile, Summary
from hitherto_shared.text.terms import content_terms, count_terms, query_terms
from hitherto_shared.text.word_forms import forms

_MOST_COMPARED = 50
"""A conversation with more withheld memories than this counts as repeating one: the database
returns one more at most, in no useful order."""
_EMPTY_WORDS = frozenset(
    content_terms(
        "user người dùng usuario usuaria usuário usuária utilisateur utilisatrice l'utilisateur "
        "l'utilisatrice benutzer nutzer nutzerin utente l'utente пользователь المستخدم مستخدم "
        "המשתמש उपयोगकर्ता 用户 用戶 使用者 ユーザー 사용자 ผู้ใช้ "
        "el la los las un una de del al en con por para su se y que es le les l du des et qui "
        "dans pour sur sa est der die das den dem ein eine einer und mit von zu im am ist sich "
        "lo il gli di da che per o os as um uma do no na em não не и в на с по за что é non "
        "في من إلى على عن و"
    )
)
"""The words of models for the user, and words between others: whatever a statement is about."""
_VERDICT = "repeats a withheld memory"


def work_of(summaries: Iterable[Summary]) -> int:
    """Characters that `repeating` reads."""
    return sum(
        len(summary.summary) + sum(map(len, summary.withheld))
        for summary in summaries
        if summary.withheld and (summary.kept is None or _VERDICT not in summary.kept)
    )


def repeating(summaries: Sequence[Summary], profile: Profile | None) -> frozenset[str]:
    """The conversations whose summaries repeat a memory that may not be shown.

    A summary repeats a memory if it has half of its words, apart from function words and the user's
    name. A sealed memory, which has no words, counts as repeated.
    """
    if not any(summary.withheld for summary in summaries):
        return frozenset()
    names = _EMPTY_WORDS.union(content_terms(_own_name(profile)))
    return frozenset(
        summary.conversation_id
        for summary in summaries
        if summary.withheld and _repeats(summary, names)
    )


def _own_name(profile: Profile | None) -> str:
    personal = profile.facts.get("personal") if profile is not None else None
    name = personal.get("name") if isinstance(personal, dict) else None
    return name if isinstance(name, str) else ""


def _repeats(summary: Summary, names: Collection[str]) -> bool:
    kept = summary.kept
    known: bool | None = None if kept is None else kept.get(_VERDICT)
    if known is None:
        known = len(summary.withheld) > _MOST_COMPARED or _says_any(summary, names)
        if kept is not None:
            kept[_VERDICT] = known
    return known


def _says_any(summary: Summary, names: Collection[str]) -> bool:
    said = count_terms(
        summary.title,
        summary.summary,
        *summary.key_topics,
        *summary.technical_topics,
        *summary.followup_suggestions,
    )
    return any(_is_said(statement, said, names) for statement in summary.withheld)


def _is_said(statement: str, said: Collection[str], names: Collection[str]) -> bool:
    every = query_terms(statement)
    terms = [term for term in every if term not in names] or every
    found = sum(term in said or any(form in said for form in forms(term)) for term in terms)
    return 2 * found >= len(terms)
