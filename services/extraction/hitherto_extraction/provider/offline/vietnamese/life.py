"""How the speaker lives: health and food, family, pets, hobbies."""

from __future__ import annotations

from hitherto_extraction.provider.offline.rules import Rule, pattern
from hitherto_extraction.provider.offline.vietnamese.lexicon import (
    ME,
    PET,
    RELATIVE,
    REST,
    is_something,
)

RULES: tuple[Rule, ...] = (
    # Health and food
    Rule(
        "allergy",
        pattern(rf"{ME}(?:bị )?dị ứng (?:với )?{REST}"),
        "fact",
        "{s} bị dị ứng {x}.",
        0.9,
        tags=("health", "food", "allergy"),
    ),
    Rule(
        "condition",
        pattern(
            rf"{ME}(?:bị|mắc|mắc bệnh) (?P<x>(?:bệnh )?(?:tiểu đường|hen|suyễn|"
            r"đau nửa đầu|đau dạ dày|dạ dày|cao huyết áp|"
            r"huyết áp|trầm cảm|mất ngủ|viêm|thoát vị|cận|gout|gút|mù màu|tự "
            r"kỷ|rối loạn|bất dung nạp).*)$"
        ),
        "fact",
        "{s} bị {x}.",
        0.9,
        tags=("health",),
    ),
    Rule(
        "diet",
        pattern(rf"{ME}(?P<x>(?:ăn (?:chay|thuần chay|kiêng|keto)|thuần chay))(?P<rest>(?!\w).*)$"),
        "fact",
        "{s} {x}{rest}.",
        0.8,
        tags=("health", "food"),
        attributes={"diet": "{x}"},
    ),
    Rule(
        "does_not_eat",
        pattern(
            r"tôi (?:không|không thể|không bao giờ) (?P<verb>ăn|uống|hút)(?: "
            r"được)? (?P<x>.+)$"
        ),
        "fact",
        "{s} không {verb} được {x}.",
        0.8,
        tags=("health", "food"),
        attributes={"consumes:{x}": "no"},
    ),
    # Family, pets, life
    Rule(
        "relative",
        pattern(
            rf"(?P<who>(?:{RELATIVE}))(?: nhà| của)? tôi (?P<x>(?:tên|là|làm|"
            r"năm|đang|sống|học|bị|mới|vừa|thích|\d+ tuổi|được \d|sinh) ?.*)$"
        ),
        "personal",
        "{who} của {s} {x}.",
        0.6,
        tags=("family",),
    ),
    Rule(
        "pet_is",
        pattern(
            rf"(?:con |chú |bé )?(?P<who>(?:{PET}))(?: cưng)?(?: nhà| của) tôi "
            r"(?P<x>(?:tên|là|được|năm|thích|bị) .+)$"
        ),
        "personal",
        "{who} của {s} {x}.",
        0.6,
        tags=("pets",),
    ),
    Rule(
        "has_family",
        pattern(
            r"(?:nhà tôi|gia đình tôi|tôi)(?: hiện| đang| mới| vừa| cũng)* (?P<verb>có|"
            r"nuôi|nhận nuôi) (?P<x>(?:một|hai|ba|bốn|năm|sáu|\d+|vài|bé|em)(?: "
            r"\w+)?(?: (?:con|đứa|bé|chú|em|người|cô|cậu))? ?"
            rf"(?:{RELATIVE}|{PET})(?!\w).*)$"
        ),
        "personal",
        "{s} {verb} {x}.",
        0.6,
        tags=("family",),
    ),
    Rule(
        "marriage",
        pattern(
            rf"{ME}(?P<x>(?:cưới|kết hôn|lấy vợ|lấy chồng|đính hôn|ly hôn|sinh "
            r"con|sinh em bé|lập gia đình)(?!\w).*)$"
        ),
        "personal",
        "{s} đã {x}.",
        0.7,
        tags=("family",),
        achieves=True,
    ),
    Rule(
        "marital",
        pattern(rf"{ME}(?P<x>(?:có gia đình|độc thân|có vợ|có chồng|có bầu|mang thai)(?!\w).*)$"),
        "personal",
        "{s} {x}.",
        0.7,
        tags=("family",),
    ),
    Rule(
        "birthday",
        pattern(r"sinh nhật (?:của )?tôi (?:là |vào |rơi vào )*(?:ngày )?(?P<x>\d.*)$"),
        "personal",
        "Sinh nhật của {s} là {x}.",
        0.8,
        tags=("personal_info", "birthday"),
        attributes={"birthday": "{x}"},
    ),
    Rule(
        "born",
        pattern(r"tôi sinh (?:vào )?(?:năm|ngày) (?P<x>\d.*)$"),
        "personal",
        "{s} sinh năm {x}.",
        0.7,
        tags=("personal_info", "birthday"),
    ),
    Rule(
        "age",
        pattern(rf"{ME}(?:tròn |bước sang tuổi )?(?P<x>\d{{1,2}})(?: tuổi(?!\w).*|$)"),
        "personal",
        "{s} {x} tuổi.",
        0.7,
        tags=("personal_info", "age"),
        attributes={"age": "{x}"},
    ),
    Rule(
        "hobby",
        pattern(
            rf"{ME}(?P<verb>chơi|sưu tầm|tập|đá|vẽ|trồng|hát|chạy bộ|nhảy|bơi) "
            r"(?P<x>.+)$"
        ),
        "personal",
        "{s} {verb} {x}.",
        0.5,
        tags=("hobby",),
        guard=is_something,
    ),
)
