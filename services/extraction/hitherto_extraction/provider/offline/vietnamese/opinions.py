"""What the speaker thinks: how answers should look, tastes, decisions, goals."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.rules import Rule, pattern
from hitherto_extraction.provider.offline.vietnamese.lexicon import (
    LASTING,
    ME,
    OUTPUT,
    REST,
    STYLE_WORDS,
    is_something,
    is_wish,
)

RULES: tuple[Rule, ...] = (
    # How answers should look
    Rule(
        "wants_answers",
        pattern(rf"tôi muốn trợ lý {REST}"),
        "preference",
        "{s} muốn trợ lý {x}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
    ),
    Rule(
        "answer_like",
        pattern(
            rf"{LASTING}*(?P<x>(?:trả lời|giải thích|viết|nói|phản hồi|đưa|liệt "
            r"kê|dùng|xưng hô)"
            rf"(?: cho tôi| tôi)?\b.*{STYLE_WORDS}(?!\w).*)$"
        ),
        "preference",
        "{s} muốn trợ lý {x}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
        request=True,
        guard=lambda groups, clause: (
            not re.match(
                r"(?:trả lời|giải thích|phản hồi) (?:của|vừa|này|đó|trước|rất|quá|"
                r"hơi|chưa)(?!\w)|(?:viết|đưa|giải thích|nói) (?!.*(?:ngắn gọn|chi "
                r"tiết|từng bước|đơn giản))"
                r"(?:một|cho|ra|về)(?!\w)",
                groups["x"],
                re.IGNORECASE,
            )
        ),
    ),
    Rule(
        "no_such",
        pattern(
            rf"{LASTING}*(?:đừng|không|không cần|khỏi|tránh|bớt|thôi)(?: có)? "
            r"(?:dùng|sử dụng|viết|thêm|chèn|kèm|giải thích) (?P<x>.+)$"
        ),
        "preference",
        "{s} không muốn trợ lý dùng {x}.",
        0.7,
        tags=("preference", "answer_style"),
    ),
    Rule(
        "prefers_answers",
        pattern(
            r"tôi (?:\w+ )?(?:thích|muốn) (?:nhận |có )?(?P<x>(?:câu trả lời|"
            r"trả lời|giải thích) .+)$"
        ),
        "preference",
        "{s} thích {x}.",
        0.7,
        tags=("preference", "answer_style"),
        style=True,
    ),
    # Feedback
    Rule(
        "feedback",
        pattern(
            rf"(?P<x>(?:cái |phần |những )?(?:{OUTPUT})(?: của bạn| bạn (?:đưa|"
            r"viết|gửi|gợi ý|cho|đề xuất)| vừa rồi| trước| này| đó| ở trên| "
            r"lúc nãy| đầu tiên)+"
            r" .+|(?:câu trả lời|giải thích|gợi ý)(?: này| đó)? (?:rất|quá|hơi|"
            r"dài|ngắn|khó|dễ|hay|hữu ích|chưa|không).*)$"
        ),
        "feedback",
        "{s} nhận xét: {x}.",
        0.5,
        tags=("feedback",),
    ),
    Rule(
        "feedback_verdict",
        pattern(
            r"tôi (?:rất |không )?(?P<x>(?:thích|ghét|hài lòng với|thấy) (?:cái "
            rf"|phần )?(?:{OUTPUT})(?!\w).*)$"
        ),
        "feedback",
        "{s} nhận xét: {x}.",
        0.5,
        tags=("feedback",),
    ),
    # Tastes
    Rule(
        "favourite",
        pattern(
            r"(?P<thing>[^,]+?) (?:yêu thích|ưa thích|khoái khẩu|tôi thích|tôi "
            r"yêu thích|ruột)(?: nhất)?(?: của tôi)?(?: nhất)? (?:là|luôn là) "
            r"(?P<x>.+)$"
        ),
        "preference",
        "{thing} yêu thích của {s} là {x}.",
        0.6,
        tags=("preference",),
        attributes={"favourite:{thing}": "{x}"},
        guard=is_something,
    ),
    Rule(
        "likes_over",
        pattern(r"tôi (?:\w+ )?(?:thích|chuộng|ưa) (?P<x>.+ hơn .+)$"),
        "preference",
        "{s} thích {x}.",
        0.6,
        tags=("preference",),
        guard=is_something,
        style=True,
    ),
    Rule(
        "dislikes",
        pattern(
            r"tôi (?:(?:rất|cực|cực kỳ|vốn|thật sự|thực sự|cũng) )*(?P<verb>ghét|"
            r"không thích|chẳng thích|không ưa|không chịu nổi|không chịu được|"
            r"sợ|dị ứng với|chúa ghét) (?P<x>.+)$"
        ),
        "preference",
        "{s} {verb} {x}.",
        0.6,
        tags=("preference", "dislike"),
        attributes={"taste:{x}": "dislike"},
        guard=is_something,
    ),
    Rule(
        "likes",
        pattern(
            rf"{ME}(?P<verb>thích|yêu thích|mê|nghiện|đam mê|khoái|yêu|hâm mộ|"
            r"quan tâm đến|quan tâm tới|là fan của|ghiền) (?P<x>.+)$"
        ),
        "preference",
        "{s} {verb} {x}.",
        0.6,
        tags=("preference", "like"),
        attributes={"taste:{x}": "like"},
        guard=is_something,
    ),
    # Decisions
    Rule(
        "decided",
        pattern(rf"{ME}(?:quyết định|chốt|thống nhất)(?: là)?(?: sẽ)? (?P<x>.+)$"),
        "decision",
        "{s} quyết định {x}.",
        0.7,
        tags=("decision",),
        guard=is_something,
    ),
    Rule(
        "chose",
        pattern(rf"{ME}(?:chọn|lựa chọn) (?P<x>.+)$"),
        "decision",
        "{s} chọn {x}.",
        0.7,
        tags=("decision",),
        guard=is_something,
    ),
    # Goals
    Rule(
        "goal_is",
        pattern(
            r"(?:mục tiêu|ước mơ|mơ ước|giấc mơ|nguyện vọng|dự định|kế hoạch)(?: "
            r"[^,]{1,20}?)?(?: của)? tôi(?: [^,]{1,20}?)? là (?P<x>.+)$"
        ),
        "goal",
        "Mục tiêu của {s} là {x}.",
        0.8,
        tags=("goal",),
    ),
    Rule(
        "wants",
        pattern(
            rf"{ME}(?P<verb>muốn|mong muốn|mong|ước|hy vọng|hi vọng|dự định|định|"
            r"có kế hoạch|lên kế hoạch|tính|đặt mục tiêu|ao ước|mơ ước) (?:là "
            r"|sẽ )?(?P<x>.+)$"
        ),
        "goal",
        "{s} {verb} {x}.",
        0.6,
        tags=("goal",),
        guard=is_wish,
    ),
    Rule(
        "tries",
        pattern(
            rf"{ME}(?P<verb>cố gắng|cố|nỗ lực|phấn đấu|ôn thi|ôn|luyện|chuẩn "
            r"bị thi|tiết kiệm|để dành) (?P<x>.+)$"
        ),
        "goal",
        "{s} đang {verb} {x}.",
        0.6,
        tags=("goal",),
        guard=is_wish,
    ),
)
