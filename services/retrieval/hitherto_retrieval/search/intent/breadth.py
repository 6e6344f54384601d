"""Whether a question asks for many things at once: a list, a count, an order, a summary."""

from __future__ import annotations

from hitherto_retrieval.search.intent.whole_words import WholeWords

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
    ),
    (),
)


def asks_for_many(text: str) -> bool:
    """Whether a question, as `readable` returns it, asks for many things."""
    return next(iter(_BROAD.find(text)), None) is not None
