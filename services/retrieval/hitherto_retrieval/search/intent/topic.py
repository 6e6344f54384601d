"""Whether a question has a subject, or only asks for a list ("show me my last emails")."""

from __future__ import annotations

from collections.abc import Iterable

from hitherto_shared.text.terms import content_terms

# Question words, quantifiers and link words, in the forms in which the keyword index stores them.
_SAYS_NOTHING = frozenset(
    term
    for word in (
        "show give list find tell get see look read open fetch check please all any every most "
        "some came come arrive receive got sent new newest item thing stuff entry "
        "one two three five ten "
        "cho xem hiện liệt kê tìm mở đọc hãy giúp về từ đến mới nhất đã vừa cái thứ gì hết cả "
        "の は を が に で と も 的 了 我 给 看 見 最"
    ).split()
    for term in content_terms(word)
)


def has_topic(text: str, wishes: Iterable[tuple[int, int]]) -> bool:
    """Whether a question has a subject besides its requests and function words.

    Args:
        text: The question, as `readable` returns it.
        wishes: Spans that state how recent and of which kind the answers should be.
    """
    left = list(text)
    for first, last in wishes:
        left[first:last] = " " * (last - first)
    return any(
        term not in _SAYS_NOTHING and not term.isdigit() for term in content_terms("".join(left))
    )
