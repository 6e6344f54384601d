"""The table of rules for Vietnamese. Clauses arrive with the speaker's pronoun made "tôi"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from recollect_extraction.provider.offline.rules import (
    Clause,
    Rule,
    pattern,
    starts_like_name,
    words,
)
from recollect_extraction.provider.offline.technologies import find_technologies

_NAME = "facts.personal.name"
_LOCATION = "facts.personal.location"
_OCCUPATION = "facts.personal.occupation"
_COMPANY = "facts.personal.company"
_WORK_FIELDS = {_OCCUPATION: "{job}", _COMPANY: "{company}"}
_WORK_ATTRIBUTES = {"occupation": "{job}", "employer": "{company}"}

_ADV = (
    r"(?:(?:thì|cũng|đang|vẫn|hiện|hiện tại|hiện đang|bây giờ|giờ|mới|vừa|đã|sẽ|rất|hay|thường|chủ yếu|"
    r"luôn|chỉ|cực kỳ|cực|vô cùng|khá|thực sự|đều|toàn|từng|lại|còn|có|rồi|cuối cùng|sắp|được|siêu|"
    r"phải|tạm thời|vừa mới|hơi|đặc biệt|định cư) )*"
)
_ME = rf"tôi {_ADV}"
_STOPS = (
    r"và|với|nhưng|nên|vì|từ|được|hồi|để|cùng|rồi|ở|tại|cho|bên|khoảng|lâu|mà|hơn|gần|đến|sang|vào|ra|"
    r"về|lên|xuống|theo|khi|chuyên|làm|sau|trước|nhé|nha|ạ|này|đó|năm|trong|đang|còn|thuộc|công tác|luôn"
)
_PLACE = words("place", _STOPS, 4)
_ORIGIN = words("origin", _STOPS, 4)
_EMPLOYER = (
    r"(?:một )?(?:(?:công ty|tập đoàn|startup|hãng) (?:[^\s,]+ ){0,4}?(?:tên là |tên |gọi là )?)?"
    + words("company", _STOPS.replace("|làm", ""), 5)
)
_JOB = words("job", _STOPS, 7)
_AT = r"(?:ở|tại|cho|bên|trong|thuộc)"
_TO = r"(?:đến|tới|vào|ra|sang|về|lên|xuống|qua)"

_NOT_PLACE = re.compile(
    r"^(?:nhà|đây|đó|kia|trọ|một|trên|dưới|ngoài|cạnh|xa|chung|cùng|tầng|phòng|khách sạn|ký túc|nơi|chỗ|"
    r"quê|căn|ngôi|vùng|giữa|lại|cái|tốt|ổn|không|đâu|nước ngoài|team|nhóm|việc|thế giới|kiểu|quê nhà)(?!\w)",
    re.IGNORECASE,
)
_NOT_NAME = re.compile(
    r"^(?:gì|ai|đâu|một|người|bạn|con|fan|ai|thế|vậy|như|sao|nào|không|chưa|đang|rất|cái|dân|kiểu|tên|"
    r"anh|chị|em|trưởng|chủ|nhân|học|sinh|giáo|bác|kỹ|lập)(?!\w)",
    re.IGNORECASE,
)
_NOT_COMPANY = re.compile(
    r"^(?:nhà|đây|đó|một|ca|đêm|việc|thêm|bạn|tôi|mình|công ty|cửa hàng|quán|tiệm|văn phòng|nước|xưởng)(?!\w)",
    re.IGNORECASE,
)
_OCCUPATION_HEAD = re.compile(
    r"^(?:\S+ (?:viên|sĩ|sư|tá|gia|công|phi|trình)(?!\w)|kế toán|kiểm toán|sinh viên|học sinh|y tá|nhà (?:văn|báo|thơ|"
    r"thiết kế|nghiên cứu|khoa học|sáng lập)|thợ |tài xế|lái xe|đầu bếp|phóng viên|biên tập|thư ký|trợ lý|"
    r"luật sư|kiến trúc sư|dược sĩ|nha sĩ|nông dân|công nhân|bảo vệ|bộ đội|công an|cảnh sát|lính|ca sĩ|phiên dịch|"
    r"biên dịch|giám đốc|trưởng (?:phòng|nhóm)|quản lý|chủ (?:quán|shop|cửa hàng|tiệm)|nội trợ|freelancer|"
    r"streamer|youtuber|marketing|nhân sự|designer|developer|dev|tester|lập trình|kinh doanh|môi giới|thiết kế|"
    r"data|product|backend|frontend|software|project|content|seo|sale|hướng dẫn viên|thực tập)",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^(?:nó|điều đó|điều này|cái này|cái đó|cái kia|thế|vậy|như thế|như vậy|bạn|em|anh|lắm|quá|gì|ai|đó|này|"
    r"câu đó|ý đó|ý tưởng đó|cách đó|phương án này)(?!\w)",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"^(?:biết|hỏi|nhờ|xem|hiểu|nghe|xin|cảm ơn|bạn|kiểm tra|xác nhận|chia sẻ|nói|kể|tham khảo|tư vấn|được tư vấn|"
    r"thử|in ra|sort|sắp xếp|so sánh|về nhà|ngủ|khóc|ăn|uống|đặt|mượn|sửa|thêm|xóa|tìm hiểu xem)(?!\w)",
    re.IGNORECASE,
)
_RELATIVE = (
    r"vợ|chồng|bố|mẹ|ba|má|cha|con gái|con trai|con|bé|bé nhà|em gái|em trai|chị gái|anh trai|ông nội|bà nội|"
    r"ông ngoại|bà ngoại|ông|bà|người yêu|bạn gái|bạn trai|cháu|bố mẹ|ba mẹ|vị hôn phu|vị hôn thê"
)
_PET = r"chó|mèo|cún|thỏ|chim|cá|rùa|vẹt|chuột hamster|hamster|gà"
_OUTPUT = (
    r"câu trả lời|giải thích|lời giải thích|gợi ý|đề xuất|bản nháp|bản tóm tắt|tóm tắt|ví dụ|bản dịch|kế hoạch|"
    r"công thức|đoạn code|code|dàn ý|email|lời khuyên|giải pháp|lịch trình|phần giải thích|cách giải thích"
)
_APPOINTMENT = (
    r"phỏng vấn|thi|kỳ thi|cuộc họp|buổi họp|họp|hẹn|lịch hẹn|deadline|hạn chót|chuyến bay|thuyết trình|đám cưới|"
    r"chuyến đi|hội thảo|phẫu thuật|mổ|bảo vệ luận văn|bảo vệ đồ án|giải chạy|khám"
)
_STYLE_WORDS = (
    r"(?:ngắn gọn|ngắn|súc tích|chi tiết|kỹ hơn|đơn giản|dễ hiểu|trang trọng|thân thiện|từng bước|gạch đầu dòng|"
    r"bằng tiếng|bằng|kèm|có ví dụ|dài|tự nhiên|đi thẳng|thẳng vào)"
)
_LASTING = (
    r"(?:(?:từ (?:giờ|nay|bây giờ)(?: trở đi)?|sau này|lần sau|luôn|hãy|xin|vui lòng|làm ơn|nhớ|cứ|mong|"
    r"bạn(?: có thể)?|có thể|tôi muốn bạn|tôi mong bạn|hãy luôn|khi),? )"
)
_REST = r"(?P<x>.+)$"


def _place(groups: Mapping[str, str], clause: Clause) -> bool:
    names = [groups[key] for key in ("place", "origin") if groups.get(key)]
    return all(
        starts_like_name(name, clause.cased) and not _NOT_PLACE.match(name) for name in names
    )


def _name(groups: Mapping[str, str], clause: Clause) -> bool:
    return starts_like_name(groups["name"], clause.cased) and not _NOT_NAME.match(groups["name"])


def _introduction(groups: Mapping[str, str], clause: Clause) -> bool:
    job = _OCCUPATION_HEAD.match(groups["name"])
    return clause.cased and _name(groups, clause) and not job and not find_technologies(groups["name"])


def _job(groups: Mapping[str, str], clause: Clause) -> bool:
    return bool(_OCCUPATION_HEAD.match(groups.get("job", "")))


def _company(groups: Mapping[str, str], clause: Clause) -> bool:
    company = groups["company"]
    return starts_like_name(company, clause.cased) and not _NOT_COMPANY.match(company)


def _something(groups: Mapping[str, str], clause: Clause) -> bool:
    return not _NOTHING.match(groups["x"])


def _wish(groups: Mapping[str, str], clause: Clause) -> bool:
    return not _REQUESTED.match(groups["x"]) and _something(groups, clause)


def _technical(groups: Mapping[str, str], clause: Clause) -> bool:
    return bool(find_technologies(groups["x"]))


RULES: tuple[Rule, ...] = (
    # Names
    Rule("name", pattern(rf"(?:tôi (?:\w+ )?tên|tên (?:của )?tôi|tên đầy đủ của tôi)(?: đầy đủ| thật)?(?: là)? {words('name', _STOPS, 5)}"),
         "fact", "{s} tên là {name}.", 0.9, tags=("personal_info", "name"), profile={_NAME: "{name}"},
         attributes={"name": "{name}"}, guard=_name, entities={"name": "person"}),
    Rule("called", pattern(rf"(?:(?:bạn|cứ|hãy|có thể|mọi người|hay|thường) )*gọi tôi là {words('name', _STOPS, 4)}"), "fact",
         "{s} được gọi là {name}.", 0.9, tags=("personal_info", "name"), profile={_NAME: "{name}"},
         attributes={"name": "{name}"}, guard=_name, entities={"name": "person"}),
    # How answers should look
    Rule("wants_answers", pattern(rf"tôi muốn trợ lý {_REST}"), "preference", "{s} muốn trợ lý {x}.", 0.7,
         tags=("preference", "answer_style"), style=True),
    Rule("answer_like", pattern(rf"{_LASTING}*(?P<x>(?:trả lời|giải thích|viết|nói|phản hồi|đưa|liệt kê|dùng|xưng hô)"
                                rf"(?: cho tôi| tôi)?\b.*{_STYLE_WORDS}(?!\w).*)$"),
         "preference", "{s} muốn trợ lý {x}.", 0.7, tags=("preference", "answer_style"), style=True, request=True,
         guard=lambda groups, clause: not re.match(r"(?:viết|đưa|giải thích|nói) (?!.*(?:ngắn gọn|chi tiết|từng bước|đơn giản))"
                                                   r"(?:một|cho|ra|về)(?!\w)", groups["x"])),
    Rule("no_such", pattern(rf"{_LASTING}*(?:đừng|không|không cần|khỏi|tránh|bớt|thôi)(?: có)? (?:dùng|sử dụng|viết|thêm|chèn|kèm|giải thích) (?P<x>.+)$"),
         "preference", "{s} không muốn trợ lý dùng {x}.", 0.7, tags=("preference", "answer_style")),
    Rule("prefers_answers", pattern(r"tôi (?:\w+ )?(?:thích|muốn) (?:nhận |có )?(?P<x>(?:câu trả lời|trả lời|giải thích) .+)$"),
         "preference", "{s} thích {x}.", 0.7, tags=("preference", "answer_style"), style=True),
    # Where
    Rule("moved", pattern(rf"{_ME}(?:chuyển(?: nhà| chỗ ở| hẳn)?|dọn(?: nhà)?|dời)(?: từ {_ORIGIN})? {_TO}(?: sống ở| sống| ở)? {_PLACE}"), "fact",
         "{s} đã chuyển[ từ {origin}] đến {place} và sống ở {place}.", 0.8, tags=("personal_info", "residence"),
         profile={_LOCATION: "{place}"}, attributes={"residence": "{place}"},
         entities={"place": "place", "origin": "place"}, guard=_place, achieves=True),
    Rule("lives", pattern(rf"{_ME}(?:sống|sinh sống|cư trú|định cư|ở|trú) (?:(?:và làm việc )?(?:ở|tại|trong) )?(?:thành phố |tp\.? )?{_PLACE}"),
         "fact", "{s} sống ở {place}.", 0.8, tags=("personal_info", "residence"), profile={_LOCATION: "{place}"},
         attributes={"residence": "{place}"}, entities={"place": "place"},
         guard=lambda groups, clause: _place(groups, clause) and " từng " not in clause.text.lower()),
    Rule("home_is", pattern(rf"(?:nhà tôi|nhà của tôi|chỗ tôi) (?:hiện )?(?:ở|tại) (?:thành phố )?{_PLACE}"), "fact",
         "{s} sống ở {place}.", 0.8, tags=("personal_info", "residence"), profile={_LOCATION: "{place}"},
         attributes={"residence": "{place}"}, entities={"place": "place"}, guard=_place),
    Rule("origin", pattern(rf"(?:quê (?:gốc )?(?:của )?tôi|tôi quê)(?: gốc)?(?: ở| là| tại)? {_PLACE}"), "personal",
         "{s} quê ở {place}.", 0.6, tags=("personal_info", "origin"), attributes={"origin": "{place}"},
         entities={"place": "place"}, guard=_place),
    Rule("grew_up", pattern(r"tôi (?P<x>(?:sinh ra|lớn lên|sinh ra và lớn lên|sinh) (?:ở|tại) .+)$"), "personal",
         "{s} {x}.", 0.5, tags=("personal_info", "origin")),
    Rule("used_to", pattern(r"tôi (?:đã )?từng (?P<x>.+)$"), "personal", "{s} từng {x}.", 0.4, tags=("personal_info", "past")),
    # Work and study
    Rule("does_job", pattern(rf"{_ME}(?:làm|làm nghề|làm việc như|hành nghề|theo nghề) (?:một )?{_JOB}(?: {_AT} {_EMPLOYER})?(?P<rest>.*)$"),
         "fact", "{s} làm {job}[ ở {company}]{rest}.", 0.8, tags=("personal_info", "work"), profile=_WORK_FIELDS,
         attributes=_WORK_ATTRIBUTES, entities={"company": "company"}, guard=_job),
    Rule("is_job", pattern(rf"{_ME}là (?:một )?{_JOB}(?: (?:ở|tại|của|cho|bên) {_EMPLOYER})?(?P<rest>.*)$"),
         "fact", "{s} là {job}[ ở {company}]{rest}.", 0.8, tags=("personal_info", "work"), profile=_WORK_FIELDS,
         attributes=_WORK_ATTRIBUTES, entities={"company": "company"}, guard=_job),
    Rule("job_is", pattern(rf"(?:công việc|nghề|nghề nghiệp)(?: hiện tại| chính)?(?: của)? tôi(?: hiện tại)? là {_JOB}"), "fact",
         "{s} làm {job}.", 0.8, tags=("personal_info", "work"), profile={_OCCUPATION: "{job}"},
         attributes={"occupation": "{job}"}),
    Rule("works_at", pattern(rf"{_ME}(?:làm việc|làm|công tác|đi làm|đầu quân|vào làm|gia nhập|nhận việc)(?: {_AT})? {_EMPLOYER}(?P<rest>.*)$"), "fact",
         "{s} làm việc tại {company}.", 0.7, tags=("personal_info", "work"), profile={_COMPANY: "{company}"},
         attributes={"employer": "{company}"}, entities={"company": "company"},
         guard=lambda groups, clause: _company(groups, clause) and not find_technologies(groups["company"])
         and not groups["company"].lower().startswith(("với", "dự án"))),
    Rule("studies_at", pattern(r"tôi (?:đang |hiện )*(?:học|theo học) (?P<x>.*(?:ngành|đại học|trường|cao đẳng|cao học|lớp).+)$"), "fact",
         "{s} học {x}.", 0.7, tags=("personal_info", "education")),
    Rule("retired", pattern(r"tôi (?:đã |đang |mới |vừa )*(?P<x>nghỉ hưu|thất nghiệp|nghỉ thai sản|làm tự do)"), "fact",
         "{s} {x}.", 0.7, tags=("personal_info", "work"), attributes={"occupation": "{x}"}),
    # Health and food
    Rule("allergy", pattern(rf"{_ME}(?:bị )?dị ứng (?:với )?{_REST}"), "fact", "{s} bị dị ứng {x}.", 0.9,
         tags=("health", "food", "allergy")),
    Rule("condition", pattern(rf"{_ME}(?:bị|mắc|mắc bệnh) (?P<x>(?:bệnh )?(?:tiểu đường|hen|suyễn|đau nửa đầu|đau dạ dày|dạ dày|cao huyết áp|"
                              r"huyết áp|trầm cảm|mất ngủ|viêm|thoát vị|cận|gout|gút|mù màu|tự kỷ|rối loạn|bất dung nạp).*)$"), "fact",
         "{s} bị {x}.", 0.9, tags=("health",)),
    Rule("diet", pattern(rf"{_ME}(?P<x>(?:ăn (?:chay|thuần chay|kiêng|keto)|thuần chay))(?P<rest>(?!\w).*)$"), "fact", "{s} {x}{rest}.", 0.8,
         tags=("health", "food"), attributes={"diet": "{x}"}),
    Rule("does_not_eat", pattern(r"tôi (?:không|không thể|không bao giờ) (?P<verb>ăn|uống|hút)(?: được)? (?P<x>.+)$"), "fact",
         "{s} không {verb} được {x}.", 0.8, tags=("health", "food"), attributes={"consumes:{x}": "no"}),
    # Feedback
    Rule("feedback", pattern(rf"(?P<x>(?:cái |phần |những )?(?:{_OUTPUT})(?: của bạn| bạn (?:đưa|viết|gửi|gợi ý|cho|đề xuất)| vừa rồi| trước| này| đó| ở trên| lúc nãy| đầu tiên)+"
                             r" .+|(?:câu trả lời|giải thích|gợi ý)(?: này| đó)? (?:rất|quá|hơi|dài|ngắn|khó|dễ|hay|hữu ích|chưa|không).*)$"),
         "feedback", "{s} nhận xét: {x}.", 0.5, tags=("feedback",)),
    Rule("feedback_verdict", pattern(rf"tôi (?:rất |không )?(?P<x>(?:thích|ghét|hài lòng với|thấy) (?:cái |phần )?(?:{_OUTPUT})(?!\w).*)$"), "feedback",
         "{s} nhận xét: {x}.", 0.5, tags=("feedback",)),
    # Tastes
    Rule("favourite", pattern(r"(?P<thing>[^,]+?) (?:yêu thích|ưa thích|khoái khẩu|tôi thích|tôi yêu thích|ruột)(?: nhất)?(?: của tôi)?(?: nhất)? (?:là|luôn là) (?P<x>.+)$"),
         "preference", "{thing} yêu thích của {s} là {x}.", 0.6, tags=("preference",),
         attributes={"favourite:{thing}": "{x}"}, guard=_something),
    Rule("likes_over", pattern(r"tôi (?:\w+ )?(?:thích|chuộng|ưa) (?P<x>.+ hơn .+)$"), "preference", "{s} thích {x}.", 0.6,
         tags=("preference",), guard=_something, style=True),
    Rule("dislikes", pattern(r"tôi (?:(?:rất|cực|cực kỳ|vốn|thật sự|thực sự|cũng) )*(?P<verb>ghét|không thích|chẳng thích|không ưa|không chịu nổi|không chịu được|sợ|dị ứng với|chúa ghét) (?P<x>.+)$"),
         "preference", "{s} {verb} {x}.", 0.6, tags=("preference", "dislike"), attributes={"taste:{x}": "dislike"}, guard=_something),
    Rule("likes", pattern(rf"{_ME}(?P<verb>thích|yêu thích|mê|nghiện|đam mê|khoái|yêu|hâm mộ|quan tâm đến|quan tâm tới|là fan của|ghiền) (?P<x>.+)$"),
         "preference", "{s} {verb} {x}.", 0.6, tags=("preference", "like"), attributes={"taste:{x}": "like"}, guard=_something),
    # Decisions
    Rule("decided", pattern(rf"{_ME}(?:quyết định|chốt|thống nhất)(?: là)?(?: sẽ)? (?P<x>.+)$"), "decision", "{s} quyết định {x}.", 0.7,
         tags=("decision",), guard=_something),
    Rule("chose", pattern(rf"{_ME}(?:chọn|lựa chọn) (?P<x>.+)$"), "decision", "{s} chọn {x}.", 0.7, tags=("decision",), guard=_something),
    # Goals
    Rule("goal_is", pattern(r"(?:mục tiêu|ước mơ|mơ ước|giấc mơ|nguyện vọng|dự định|kế hoạch)(?: [^,]{1,20}?)?(?: của)? tôi(?: [^,]{1,20}?)? là (?P<x>.+)$"), "goal",
         "Mục tiêu của {s} là {x}.", 0.8, tags=("goal",)),
    Rule("wants", pattern(rf"{_ME}(?P<verb>muốn|mong muốn|mong|ước|hy vọng|hi vọng|dự định|định|có kế hoạch|lên kế hoạch|tính|đặt mục tiêu|ao ước|mơ ước) (?:là |sẽ )?(?P<x>.+)$"), "goal",
         "{s} {verb} {x}.", 0.6, tags=("goal",), guard=_wish),
    Rule("tries", pattern(rf"{_ME}(?P<verb>cố gắng|cố|nỗ lực|phấn đấu|ôn thi|ôn|luyện|chuẩn bị thi|tiết kiệm|để dành) (?P<x>.+)$"), "goal",
         "{s} đang {verb} {x}.", 0.6, tags=("goal",), guard=_wish),
    # Achievements
    Rule("achieved", pattern(rf"{_ME}(?P<x>(?:đậu|đỗ|hoàn thành|tốt nghiệp|đạt được|đạt|giành|thi đỗ|thi đậu|vượt qua|bảo vệ thành công|trúng tuyển|"
                             r"lấy được|xong|chạy xong|làm xong|học xong|nhận được|bỏ được|thắng).+)$"), "fact",
         "{s} đã {x}.", 0.7, tags=("achievement",), achieves=True,
         guard=lambda groups, clause: not re.match(r"(?:xong rồi|đỗ xe)", groups["x"])),
    Rule("achieved_bare", pattern(rf"{_ME}(?P<x>tốt nghiệp|bỏ thuốc lá|có bằng lái)(?P<rest>.*)$"), "fact", "{s} đã {x}{rest}.", 0.7,
         tags=("achievement",), achieves=True),
    # Problems and learning
    Rule("problem", pattern(rf"{_ME}(?:bị|gặp|gặp phải|dính|mắc|kẹt|bí)(?: một| một số| chút)? (?P<x>(?:lỗi|vấn đề|rắc rối|khó khăn|bug|sự cố|trục trặc|kẹt)(?!\w).*)$"),
         "problem", "{s} gặp {x}.", 0.5, tags=("problem",), profile={"facts.technical_context.challenges[]": "{x}"}),
    Rule("failing", pattern(r"(?P<x>[^,]+ (?:của tôi )?(?:cứ bị|bị lỗi|không chạy|không hoạt động|không kết nối|báo lỗi|bị crash|bị treo|bị tắt|liên tục bị)(?!\w).*)$"),
         "problem", "{s} gặp vấn đề: {x}.", 0.5, tags=("problem",), profile={"facts.technical_context.challenges[]": "{x}"},
         guard=lambda groups, clause: _technical(groups, clause) or "của tôi" in clause.text),
    Rule("learned", pattern(rf"{_ME}(?:học được|biết được|hiểu được|tự học được|học xong|khám phá ra) (?P<x>.+)$"), "learning",
         "{s} đã học được {x}.", 0.5, tags=("learning",), achieves=True, guard=_something),
    Rule("learning", pattern(r"tôi (?:(?:đang|mới|vừa|bắt đầu|cũng|hiện) )+(?:tự )?(?:học|tìm hiểu|nghiên cứu|tập) (?:về |cách )?(?P<x>.+)$"), "learning",
         "{s} đang học {x}.", 0.5, tags=("learning",), guard=_something),
    # Projects, plans
    Rule("project", pattern(rf"{_ME}(?P<verb>làm|xây dựng|phát triển|viết|thiết kế|tham gia|triển khai|code|tổ chức) (?P<x>(?:(?:cho )?(?:một |cái |1 )?(?:dự án|đồ án|app|ứng dụng|website|trang web|web|"
                            r"chatbot|bot|game|phần mềm|hệ thống|cuốn sách|tiểu thuyết|blog|luận văn|khóa luận|công cụ)|một )(?!\w).*)$"), "context",
         "{s} đang {verb} {x}.", 0.6, tags=("project",), technologies=True),
    Rule("project_is", pattern(r"dự án (?:hiện tại |mới |chính )*(?:của )?tôi(?: hiện tại)? (?:là|về|tên là) (?P<x>.+)$"), "context",
         "Dự án hiện tại của {s} là {x}.", 0.6, tags=("project",), technologies=True),
    Rule("appointment", pattern(rf"{_ME}(?P<x>(?:có|có một|có lịch|có buổi|phải) ?.*(?:{_APPOINTMENT})(?!\w).*)$"), "context", "{s} {x}.", 0.6, tags=("schedule",)),
    Rule("has_appointment", pattern(rf"tôi (?:sẽ |sắp )?(?:có|phải) (?P<x>.*(?:{_APPOINTMENT})(?!\w).*)$"), "context", "{s} có {x}.", 0.6, tags=("schedule",)),
    Rule("travelling", pattern(r"tôi (?:(?:sẽ|sắp|phải|được|chuẩn bị) )*(?P<x>(?:bay|đi (?:du lịch|công tác|nghỉ mát|Mỹ|Nhật|Hàn)|về quê|sang|đi) .+)$"), "context", "{s} {x}.", 0.6,
         tags=("travel", "schedule"), guard=lambda groups, clause: re.match(r"(?:bay|đi (?:du lịch|công tác|nghỉ mát)|về quê|sang)|đi [A-ZĐÀ-Ỹ]", groups["x"]) is not None),
    # Family, pets, life
    Rule("relative", pattern(rf"(?P<who>(?:{_RELATIVE}))(?: nhà| của)? tôi (?P<x>(?:tên|là|làm|năm|đang|sống|học|bị|mới|vừa|thích|\d+ tuổi|được \d|sinh) ?.*)$"),
         "personal", "{who} của {s} {x}.", 0.6, tags=("family",)),
    Rule("pet_is", pattern(rf"(?:con |chú |bé )?(?P<who>(?:{_PET}))(?: cưng)?(?: nhà| của) tôi (?P<x>(?:tên|là|được|năm|thích|bị) .+)$"), "personal",
         "{who} của {s} {x}.", 0.6, tags=("pets",)),
    Rule("has_family", pattern(rf"(?:nhà tôi|gia đình tôi|tôi)(?: hiện| đang| mới| vừa| cũng)* (?P<verb>có|nuôi|nhận nuôi) (?P<x>(?:một|hai|ba|bốn|năm|sáu|\d+|vài|bé|em)(?: \w+)?(?: (?:con|đứa|bé|chú|em|người|cô|cậu))? ?"
                               rf"(?:{_RELATIVE}|{_PET})(?!\w).*)$"), "personal", "{s} {verb} {x}.", 0.6, tags=("family",)),
    Rule("marriage", pattern(rf"{_ME}(?P<x>(?:cưới|kết hôn|lấy vợ|lấy chồng|đính hôn|ly hôn|sinh con|sinh em bé|lập gia đình)(?!\w).*)$"), "personal",
         "{s} đã {x}.", 0.7, tags=("family",), achieves=True),
    Rule("marital", pattern(rf"{_ME}(?P<x>(?:có gia đình|độc thân|có vợ|có chồng|có bầu|mang thai)(?!\w).*)$"), "personal", "{s} {x}.", 0.7, tags=("family",)),
    Rule("birthday", pattern(r"sinh nhật (?:của )?tôi (?:là |vào |rơi vào )*(?:ngày )?(?P<x>\d.*)$"), "personal", "Sinh nhật của {s} là {x}.", 0.8,
         tags=("personal_info", "birthday"), attributes={"birthday": "{x}"}),
    Rule("born", pattern(r"tôi sinh (?:vào )?(?:năm|ngày) (?P<x>\d.*)$"), "personal", "{s} sinh năm {x}.", 0.7, tags=("personal_info", "birthday")),
    Rule("age", pattern(rf"{_ME}(?:tròn |bước sang tuổi )?(?P<x>\d{{1,2}})(?: tuổi(?!\w).*|$)"), "personal", "{s} {x} tuổi.", 0.7,
         tags=("personal_info", "age"), attributes={"age": "{x}"}),
    Rule("hobby", pattern(rf"{_ME}(?P<verb>chơi|sưu tầm|tập|đá|vẽ|trồng|hát|chạy bộ|nhảy|bơi) (?P<x>.+)$"), "personal", "{s} {verb} {x}.", 0.5, tags=("hobby",), guard=_something),
    # Tools and languages
    Rule("uses", pattern(rf"{_ME}(?:dùng|sử dụng|làm việc với|làm với|viết code bằng|code bằng|lập trình bằng|lập trình với|viết bằng|viết|code|xài|chạy|quen với|làm quen với|chuyển sang dùng) (?P<x>.+)$"), "fact",
         "{s} dùng {x}.", 0.6, tags=("tools",), technologies=True, guard=_technical),
    Rule("experience", pattern(r"tôi (?:đã )?có (?P<x>.*kinh nghiệm .+)$"), "fact", "{s} có {x}.", 0.6, tags=("work",), technologies=True),
    Rule("speaks", pattern(rf"{_ME}(?:nói|biết|giao tiếp)(?: được| bằng| tốt| thạo)* (?P<x>(?:tiếng|\w+ thứ tiếng) .+)$"), "fact", "{s} nói {x}.", 0.6, tags=("language",)),
    Rule("drives", pattern(rf"{_ME}(?P<verb>đi|lái|chạy) (?P<x>(?:xe|ô tô|xe máy) .+)$"), "fact", "{s} {verb} {x}.", 0.4, tags=("personal_info",)),
    # Last, because "tôi là …" opens so much else
    Rule("introduction", pattern(rf"(?:tôi|đây) là {words('name', _STOPS, 4)}(?: đây)?$"), "fact", "{s} tên là {name}.", 0.9, "medium",
         tags=("personal_info", "name"), profile={_NAME: "{name}"}, attributes={"name": "{name}"}, guard=_introduction, entities={"name": "person"}),
)  # fmt: skip
