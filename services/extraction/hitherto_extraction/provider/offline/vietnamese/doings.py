"""What the speaker does: achievements, problems, learning, projects, plans, tools."""

from __future__ import annotations

import re

from hitherto_extraction.provider.offline.rules import Rule, pattern
from hitherto_extraction.provider.offline.vietnamese.lexicon import (
    APPOINTMENT,
    ME,
    is_something,
    is_technical,
)

RULES: tuple[Rule, ...] = (
    # Achievements
    Rule(
        "achieved",
        pattern(
            rf"{ME}(?P<x>(?:đậu|đỗ|hoàn thành|tốt nghiệp|đạt được|đạt|giành|thi "
            r"đỗ|thi đậu|vượt qua|bảo vệ thành công|trúng tuyển|"
            r"lấy được|xong|chạy xong|làm xong|học xong|nhận được|bỏ được|thắng).+)$"
        ),
        "fact",
        "{s} đã {x}.",
        0.7,
        tags=("achievement",),
        achieves=True,
        guard=lambda groups, clause: not re.match(r"(?:xong rồi|đỗ xe)", groups["x"]),
    ),
    Rule(
        "achieved_bare",
        pattern(rf"{ME}(?P<x>tốt nghiệp|bỏ thuốc lá|có bằng lái)(?P<rest>.*)$"),
        "fact",
        "{s} đã {x}{rest}.",
        0.7,
        tags=("achievement",),
        achieves=True,
    ),
    # Problems and learning
    Rule(
        "problem",
        pattern(
            rf"{ME}(?:bị|gặp|gặp phải|dính|mắc|kẹt|bí)(?: một| một số| chút)? "
            r"(?P<x>(?:lỗi|vấn đề|rắc rối|khó khăn|bug|sự cố|trục trặc|kẹt)(?!\w).*)$"
        ),
        "problem",
        "{s} gặp {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
    ),
    Rule(
        "failing",
        pattern(
            r"(?P<x>[^,]+ (?:của tôi )?(?:cứ bị|bị lỗi|không chạy|không hoạt "
            r"động|không kết nối|báo lỗi|bị crash|bị treo|bị tắt|liên tục bị)(?!\w).*)$"
        ),
        "problem",
        "{s} gặp vấn đề: {x}.",
        0.5,
        tags=("problem",),
        profile={"facts.technical_context.challenges[]": "{x}"},
        guard=lambda groups, clause: is_technical(groups, clause) or "của tôi" in clause.text,
    ),
    Rule(
        "learned",
        pattern(
            rf"{ME}(?:học được|biết được|hiểu được|tự học được|học xong|khám "
            r"phá ra) (?P<x>.+)$"
        ),
        "learning",
        "{s} đã học được {x}.",
        0.5,
        tags=("learning",),
        achieves=True,
        guard=is_something,
    ),
    Rule(
        "realised",
        pattern(
            r"tôi (?:(?:đã|vừa|mới|nay) )+(?:biết|hiểu|hay|nhận|phát hiện)(?: ra)? (?:là|rằng) "
            r"(?P<x>.+)$"
        ),
        "learning",
        "{s} đã học được rằng {x}.",
        0.5,
        tags=("learning",),
        guard=is_something,
    ),
    Rule(
        "learning",
        pattern(
            r"tôi (?:(?:đang|mới|vừa|bắt đầu|cũng|hiện) )+(?:tự )?(?:học|tìm "
            r"hiểu|nghiên cứu|tập) (?:về |cách )?(?P<x>.+)$"
        ),
        "learning",
        "{s} đang học {x}.",
        0.5,
        tags=("learning",),
        guard=is_something,
    ),
    # Projects, plans
    Rule(
        "project",
        pattern(
            rf"{ME}(?P<verb>làm|xây dựng|phát triển|viết|thiết kế|tham gia|triển "
            r"khai|code|tổ chức) (?P<x>(?:(?:cho )?(?:một |cái |1 )?(?:dự án|"
            r"đồ án|app|ứng dụng|website|trang web|web|"
            r"chatbot|bot|game|phần mềm|hệ thống|cuốn sách|tiểu thuyết|blog|"
            r"luận văn|khóa luận|công cụ)|một )(?!\w).*)$"
        ),
        "context",
        "{s} đang {verb} {x}.",
        0.6,
        tags=("project",),
        technologies=True,
    ),
    Rule(
        "project_is",
        pattern(
            r"dự án (?:hiện tại |mới |chính )*(?:của )?tôi(?: hiện tại)? (?:là|"
            r"về|tên là) (?P<x>.+)$"
        ),
        "context",
        "Dự án hiện tại của {s} là {x}.",
        0.6,
        tags=("project",),
        technologies=True,
    ),
    Rule(
        "appointment",
        pattern(rf"{ME}(?P<x>(?:có|có một|có lịch|có buổi|phải) ?.*(?:{APPOINTMENT})(?!\w).*)$"),
        "context",
        "{s} {x}.",
        0.6,
        tags=("schedule",),
    ),
    Rule(
        "has_appointment",
        pattern(rf"tôi (?:sẽ |sắp )?(?:có|phải) (?P<x>.*(?:{APPOINTMENT})(?!\w).*)$"),
        "context",
        "{s} có {x}.",
        0.6,
        tags=("schedule",),
    ),
    Rule(
        "travelling",
        pattern(
            r"tôi (?:(?:sẽ|sắp|phải|được|chuẩn bị) )*(?P<x>(?:bay|đi (?:du lịch|"
            r"công tác|nghỉ mát|Mỹ|Nhật|Hàn)|về quê|sang|đi) .+)$"
        ),
        "context",
        "{s} {x}.",
        0.6,
        tags=("travel", "schedule"),
        guard=lambda groups, clause: (
            re.match(r"(?:bay|đi (?:du lịch|công tác|nghỉ mát)|về quê|sang)(?!\w)", groups["x"])
            is not None
            # "đi Huế" is a journey, "đi ăn" is not.
            or groups["x"][3:4].isupper()
        ),
    ),
    # Tools and languages
    Rule(
        "uses",
        pattern(
            rf"{ME}(?:dùng|sử dụng|làm việc với|làm với|viết code bằng|code bằng|"
            r"lập trình bằng|lập trình với|viết bằng|viết|code|xài|chạy|quen "
            r"với|làm quen với|chuyển sang dùng) (?P<x>.+)$"
        ),
        "fact",
        "{s} dùng {x}.",
        0.6,
        tags=("tools",),
        technologies=True,
        guard=is_technical,
    ),
    Rule(
        "experience",
        pattern(r"tôi (?:đã )?có (?P<x>.*kinh nghiệm .+)$"),
        "fact",
        "{s} có {x}.",
        0.6,
        tags=("work",),
        technologies=True,
    ),
    Rule(
        "speaks",
        pattern(
            rf"{ME}(?:nói|biết|giao tiếp)(?: được| bằng| tốt| thạo)* (?P<x>(?:tiếng|"
            r"\w+ thứ tiếng) .+)$"
        ),
        "fact",
        "{s} nói {x}.",
        0.6,
        tags=("language",),
    ),
    Rule(
        "drives",
        pattern(rf"{ME}(?P<verb>đi|lái|chạy) (?P<x>(?:xe|ô tô|xe máy) .+)$"),
        "fact",
        "{s} {verb} {x}.",
        0.4,
        tags=("personal_info",),
    ),
)

# Tried after everything else: a deed matters only when it reaches a known goal.
DEED = Rule(
    "did_it",
    pattern(
        r"tôi (?:(?:cuối cùng|cũng|đã|vừa|mới|được) )*(?P<x>(?:mua|bán|viết|đọc|leo|chạy|bơi|đạp|"
        r"đi|trồng|xây|làm|nấu|nướng|vẽ|dựng|phát hành|xuất bản|gửi|nộp|trả|giảm|tăng|tiết kiệm|"
        r"dành|sửa|dọn|gom|chuyển) .+)$"
    ),
    "fact",
    "{s} đã {x}.",
    0.6,
    tags=("achievement",),
    achieves=True,
    needs_goal=True,
    # Without a word for what is over, a verb may speak of now or of tomorrow.
    guard=lambda groups, clause: (
        re.search(r"(?<!\w)(?:đã|vừa|mới|xong|được|hết|cuối cùng)(?!\w)", clause.text) is not None
    ),
)
