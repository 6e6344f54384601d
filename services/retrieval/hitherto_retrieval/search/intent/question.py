"""Analyses a question from its text alone: its time, names, words and requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from hitherto_retrieval.search.intent.content_types import ContentTypes
from hitherto_retrieval.search.intent.recency import RecencyWords, words_for_the_present
from hitherto_retrieval.search.intent.whole_words import WholeWords, readable
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.ranking.ranking import QueryIntent
from hitherto_retrieval.search.words import distinct_words
from hitherto_shared.dates.find import find_window
from hitherto_shared.text.terms import content_terms, looked_up_terms, query_terms

MAX_CHARACTERS = 8_000
"""Only the beginning of a longer question is looked up: it states what the text is about. Its time
and its requests are read from the first 1,000 characters."""

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

_SAID_BY_YOU = WholeWords(
    (
        *("did you", "have you", "had you", "you said", "you told", "you gave", "you wrote"),
        *("you suggested", "you recommended", "you advised", "you mentioned", "you explained"),
        *("you listed", "you proposed", "you provided", "your advice", "your answer"),
        *("your suggestion", "your suggestions", "your recommendation", "your recommendations"),
        *("the assistant", "hast du", "haben sie mir", "du gesagt", "du empfohlen"),
        *("me dijiste", "me recomendaste", "me sugeriste", "tu m'as", "vous m'avez", "as-tu"),
        *("bạn đã", "bạn nói", "bạn bảo", "bạn gợi ý", "bạn khuyên", "bạn đề xuất"),
        *(
            "你说",
            "你說",
            "你之前",
            "你建议",
            "你建議",
            "你推荐",
            "你推薦",
            "あなたが",
            "教えてくれた",
        ),
        *("勧めてくれた", "おすすめしてくれた", "네가", "추천해 준", "알려 준", "말해 준"),
        *("قلت لي", "أخبرتني", "نصحتني", "اقترحت", "आपने"),
    )
)
_BROAD = WholeWords(
    (
        *("list", "how many", "how often", "in what order", "the order", "in order", "timeline"),
        *("summary", "summarize", "summarise", "overview", "recap", "walk me through", "all the"),
        *("liệt kê", "tóm tắt", "bao nhiêu", "mấy lần", "những gì", "theo thứ tự", "tổng quan"),
        *("总结", "總結", "列出", "哪些", "多少", "几次", "幾次", "顺序", "順序", "概述"),
        *("要約", "まとめ", "一覧", "いくつ", "何回", "順番", "요약", "목록", "몇 번", "순서"),
        *("zusammenfassung", "liste", "wie viele", "wie oft", "reihenfolge", "überblick"),
        *("resumen", "lista", "cuántos", "cuántas", "cuántas veces", "en qué orden"),
        *("résumé", "combien", "dans quel ordre", "resumo", "quantos", "quantas"),
        *(
            "ملخص",
            "لخص",
            "قائمة",
            "كم عدد",
            "كم مرة",
            "بالترتيب",
            "सारांश",
            "सूची",
            "कितने",
            "कितनी बार",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Wording:
    """The words that express requests, as shipped or as configured."""

    recency: RecencyWords = field(default_factory=RecencyWords)
    content_types: ContentTypes = field(default_factory=ContentTypes)

    @classmethod
    def from_settings(cls, recency_words: str | None, content_types: str | None) -> Self:
        """The shipped words with the changes of the two settings.

        Raises:
            ValueError: A setting has an invalid form; the message says what to write.
        """
        return cls(
            RecencyWords.from_setting(recency_words), ContentTypes.from_setting(content_types)
        )


def looked_up(text: str) -> str:
    """The part of a question whose words and names are looked up."""
    return text[:MAX_CHARACTERS]


def terms_of(text: str) -> list[str]:
    """The terms to look up for a question, without words that only say "now" if it has others."""
    found = looked_up_terms(looked_up(text))
    wish = set(query_terms(" ".join(words_for_the_present(readable(text)))))
    return [term for term in found if term not in wish] or found


def read_question_text(
    text: str,
    now: datetime,
    time_zone: str,
    settings: Wording,
    *,
    names: Sequence[str] | None = None,
    by_spelling: bool = False,
) -> QueryIntent:
    """What `text` asks for.

    Args:
        text: Any text; of a long one only the beginning counts.
        now: The time relative to which "yesterday" is resolved, timezone-aware.
        time_zone: IANA name of the user's time zone, whose days and weeks count.
        settings: The words that express requests.
        names: `names_in(looked_up(text))`, if the caller already computed it.
        by_spelling: See `QueryIntent`.

    Raises:
        ValueError: `time_zone` is no known name.
    """
    beginning = looked_up(text)
    window = find_window(text, now, time_zone)
    wishes = readable(text)
    recency = settings.recency.found_in(wishes, window)
    kinds = settings.content_types.found_in(wishes) if recency else ()
    spans = [*recency, *((first, last) for _, first, last in kinds)]
    return QueryIntent(
        now=now,
        words=distinct_words(beginning),
        names=frozenset(names_in(beginning) if names is None else names),
        window=window,
        most_recent=bool(recency),
        present=window is None and not recency and bool(words_for_the_present(wishes)),
        topic=not recency or has_topic(wishes, spans),
        source_types=settings.content_types.named_in(wishes),
        by_spelling=by_spelling,
        assistant=asks_the_assistant(wishes),
        broad=asks_for_many(wishes),
    )


def asks_the_assistant(text: str) -> bool:
    """Whether a `readable` question asks what the assistant said: "what did you recommend?"."""
    return any(_SAID_BY_YOU.find(text))


def asks_for_many(text: str) -> bool:
    """Whether a `readable` question asks for many things: a list, a count, an order, a summary."""
    return any(_BROAD.find(text))


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
