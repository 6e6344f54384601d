"""Whether a question asks what the assistant itself said: "what did you recommend?"."""

from __future__ import annotations

from hitherto_retrieval.search.intent.whole_words import WholeWords

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
    ),
    (),
)


def asks_the_assistant(text: str) -> bool:
    """Whether a question, as `readable` returns it, asks what the assistant said."""
    return next(iter(_SAID_BY_YOU.find(text)), None) is not None
