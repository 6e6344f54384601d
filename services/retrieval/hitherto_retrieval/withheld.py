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
SPARE = 5
"""Summaries to read beyond the wanted number, because some may be left out."""
_LANGUAGES = (
    ("user", ""),
    ("người dùng, nguoi dung", ""),
    (
        "usuario, usuaria",
        "el la los las lo un una de del al en con por para su se y que es",
    ),
    (
        "usuário, usuária",
        "o os as um uma de da do na no em com por para se e que é não",
    ),
    (
        "utilisateur, utilisatrice, l'utilisateur, l'utilisatrice",
        "le la les l un une de du des en et qui que dans pour par sur sa se est",
    ),
    (
        "nutzer, nutzerin, benutzer, benutzerin",
        "der die das den dem des ein eine einer und mit von zu in im am ist sich",
    ),
    ("utente, l'utente", "il lo la gli le un una di da in con per su al e che è si non"),
    ("пользователь", "и в на с по за что не"),
    ("المستخدم, مستخدم", "في من إلى على عن و"),
    ("המשתמש", ""),
    ("उपयोगकर्ता", ""),
    ("用户, 用戶", ""),
    ("使用者", ""),
    ("ユーザー", ""),
    ("사용자", ""),
    ("ผู้ใช้", ""),
)
"""By language, the words of models for the user, and words between others. Many of the latter are
words in other languages ("die"), or names with a capital ("MIT", "Su")."""
_EMPTY_WORDS = tuple(
    (frozenset(count_terms(word)), frozenset(count_terms(between)))
    for words, between in _LANGUAGES
    for word in words.split(", ")
)
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

    A summary repeats a memory if it has half of its words, apart from the word for the user,
    function words of the same language, and the user's name. A sealed memory, which has no words,
    counts as repeated.
    """
    if not any(summary.withheld for summary in summaries):
        return frozenset()
    names = frozenset(content_terms(_own_name(profile)))
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
    found = [empty for empty in _EMPTY_WORDS if empty[0].issubset(every)]
    user = frozenset().union(names, *(words for words, _ in found))
    capitals = count_terms(*(word for word in statement.split()[1:] if word != word.lower()))
    between = frozenset().union(*(words for _, words in found)).difference(capitals)
    others = [term for term in every if term not in user]
    terms = [term for term in others if term not in between] or others or every
    repeated = sum(term in said or any(form in said for form in forms(term)) for term in terms)
    return 2 * repeated >= len(terms)
