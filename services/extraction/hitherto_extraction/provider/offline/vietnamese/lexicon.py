"""The words and guards the Vietnamese rules are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hitherto_extraction.provider.offline.rules import (
    Clause,
    starts_like_name,
    words,
)
from hitherto_extraction.provider.offline.technologies import find_technologies

NAME = "facts.personal.name"
LOCATION = "facts.personal.location"
OCCUPATION = "facts.personal.occupation"
COMPANY = "facts.personal.company"
WORK_FIELDS = {OCCUPATION: "{job}", COMPANY: "{company}"}
WORK_ATTRIBUTES = {"occupation": "{job}", "employer": "{company}"}

ADV = (
    r"(?:(?:thì|cũng|đang|vẫn|hiện|hiện tại|hiện đang|bây giờ|giờ|mới|"
    r"vừa|đã|sẽ|rất|hay|thường|chủ yếu|"
    r"luôn|chỉ|cực kỳ|cực|vô cùng|khá|thực sự|đều|toàn|từng|lại|còn|"
    r"có|rồi|cuối cùng|sắp|được|siêu|"
    r"phải|tạm thời|vừa mới|hơi|đặc biệt|định cư) )*"
)
ME = rf"tôi {ADV}"
STOPS = (
    r"và|với|nhưng|nên|vì|từ|được|hồi|để|cùng|rồi|ở|tại|cho|bên|khoảng|"
    r"lâu|mà|hơn|gần|đến|sang|vào|ra|"
    r"về|lên|xuống|theo|khi|chuyên(?! viên| gia)|làm|sau|trước|nhé|nha|ạ|này|đó|năm|"
    r"trong|đang|còn|thuộc|công tác|luôn"
)
PLACE = words("place", STOPS, 4)
ORIGIN = words("origin", STOPS, 4)
EMPLOYER = (
    r"(?:(?:một )?(?:công ty|tập đoàn|startup|hãng) (?:[^\s,]+ ){0,4}?(?:tên "
    r"là |tên |gọi là ))?"
    r"(?:(?:công ty|tập đoàn|hãng) )?" + words("company", STOPS.replace("|làm", ""), 7)
)
JOB = words("job", STOPS.replace("|năm", ""), 7)
AT = r"(?:ở|tại|cho|bên|trong|thuộc)"
TO = r"(?:đến|tới|vào|ra|sang|về|lên|xuống|qua)"

NOT_PLACE = re.compile(
    r"^(?:nhà|đây|đó|kia|trọ|một|trên|dưới|ngoài|cạnh|xa|chung|cùng|"
    r"tầng|phòng|khách sạn|ký túc|nơi|chỗ|"
    r"quê|căn|ngôi|vùng|giữa|lại|cái|tốt|ổn|không|đâu|nước ngoài|team|"
    r"nhóm|việc|thế giới|kiểu|quê nhà)(?!\w)",
    re.IGNORECASE,
)
NOT_NAME = re.compile(
    r"^(?:gì|ai|đâu|một|người|bạn|con|fan|ai|thế|vậy|như|sao|nào|không|"
    r"chưa|đang|rất|cái|dân|kiểu|tên|"
    r"anh|chị|em|trưởng|chủ|nhân|học|sinh|giáo|bác|kỹ|lập)(?!\w)",
    re.IGNORECASE,
)
NOT_COMPANY = re.compile(
    r"^(?:nhà|đây|đó|một|ca|đêm|việc|thêm|bạn|tôi|mình|công ty|cửa hàng|"
    r"quán|tiệm|văn phòng|nước|xưởng)(?!\w)",
    re.IGNORECASE,
)
OCCUPATION_HEAD = re.compile(
    r"^(?:\S+ (?:viên|sĩ|sư|tá|gia|công|phi|trình)(?!\w)|kế toán|kiểm "
    r"toán|sinh viên|học sinh|y tá|nhà (?:văn|báo|thơ|"
    r"thiết kế|nghiên cứu|khoa học|sáng lập)|thợ |tài xế|lái xe|đầu "
    r"bếp|phóng viên|biên tập|thư ký|trợ lý|"
    r"luật sư|kiến trúc sư|dược sĩ|nha sĩ|nông dân|công nhân|bảo vệ|"
    r"bộ đội|công an|cảnh sát|lính|ca sĩ|phiên dịch|"
    r"biên dịch|giám đốc|trưởng (?:phòng|nhóm)|quản lý|chủ (?:quán|shop|"
    r"cửa hàng|tiệm)|nội trợ|freelancer|"
    r"streamer|youtuber|marketing|nhân sự|designer|developer|dev|tester|"
    r"lập trình|kinh doanh|môi giới|thiết kế|"
    r"data|product|backend|frontend|software|project|content|seo|sale|"
    r"hướng dẫn viên|thực tập)",
    re.IGNORECASE,
)
# Consonant, vowels, ending: what a written Vietnamese syllable is made of.
SYLLABLE = re.compile(
    r"(?:ngh|ng|nh|gh|gi|kh|ph|th|tr|ch|qu|[bcdđghklmnprstvx])?"
    r"[aàáảãạăằắẳẵặâầấẩẫậeèéẻẽẹêềếểễệiìíỉĩịoòóỏõọôồốổỗộơờớởỡợuùúủũụưừứửữựyỳýỷỹỵ]{1,3}"
    r"(?:ch|ng|nh|[cmnpt])?"
)
INSTITUTION = re.compile(
    r"^(?:bệnh viện|trường|đại học|ngân hàng|viện|khách sạn|nhà hàng|"
    r"trung tâm|công ty|tập đoàn|sở|bộ|ủy ban|tòa)(?!\w)",
    re.IGNORECASE,
)
NOTHING = re.compile(
    r"^(?:nó|điều$|cái$|điều đó|điều này|cái này|cái đó|cái kia|thế|"
    r"vậy|như thế|như vậy|bạn|em|anh|lắm|quá|gì|ai|đó|này|"
    r"câu đó|ý đó|ý tưởng đó|cách đó|phương án này)(?!\w)",
    re.IGNORECASE,
)
REQUESTED = re.compile(
    r"^(?:biết|hỏi|nhờ|xem|hiểu|nghe|xin|cảm ơn|bạn|kiểm tra|xác nhận|"
    r"chia sẻ|nói|kể|tham khảo|tư vấn|được tư vấn|"
    r"thử|in ra|sort|sắp xếp|so sánh|về nhà|ngủ|khóc|ăn|uống|đặt|mượn|"
    r"sửa|thêm|xóa|tìm hiểu xem)(?!\w)",
    re.IGNORECASE,
)
RELATIVE = (
    r"vợ|chồng|bố|mẹ|ba|má|cha|con gái|con trai|con|bé|bé nhà|em gái|"
    r"em trai|chị gái|anh trai|ông nội|bà nội|"
    r"ông ngoại|bà ngoại|ông|bà|người yêu|bạn gái|bạn trai|cháu|bố mẹ|"
    r"ba mẹ|vị hôn phu|vị hôn thê"
)
PET = r"chó|mèo|cún|thỏ|chim|cá|rùa|vẹt|chuột hamster|hamster|gà"
OUTPUT = (
    r"câu trả lời|giải thích|lời giải thích|gợi ý|đề xuất|bản nháp|bản "
    r"tóm tắt|tóm tắt|ví dụ|bản dịch|kế hoạch|"
    r"công thức|đoạn code|code|dàn ý|email|lời khuyên|giải pháp|lịch "
    r"trình|phần giải thích|cách giải thích"
)
APPOINTMENT = (
    r"phỏng vấn|thi|kỳ thi|cuộc họp|buổi họp|họp|hẹn|lịch hẹn|deadline|"
    r"hạn chót|chuyến bay|thuyết trình|đám cưới|"
    r"chuyến đi|hội thảo|phẫu thuật|mổ|bảo vệ luận văn|bảo vệ đồ án|giải chạy|khám"
)
STYLE_WORDS = (
    r"(?:ngắn gọn|ngắn|súc tích|chi tiết|kỹ hơn|đơn giản|dễ hiểu|trang "
    r"trọng|thân thiện|từng bước|gạch đầu dòng|"
    r"bằng tiếng|bằng|kèm|có ví dụ|dài|tự nhiên|đi thẳng|thẳng vào)"
)
LASTING = (
    r"(?:(?:từ (?:giờ|nay|bây giờ)(?: trở đi)?|sau này|lần sau|luôn|"
    r"hãy|xin|vui lòng|làm ơn|nhớ|cứ|mong|"
    r"bạn(?: có thể)?|có thể|tôi muốn bạn|tôi mong bạn|hãy luôn|khi),? )"
)
REST = r"(?P<x>.+)$"


def is_place(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether all places of the match read as proper names of places."""
    names = [groups[key] for key in ("place", "origin") if groups.get(key)]
    return all(starts_like_name(name, clause.cased) and not NOT_PLACE.match(name) for name in names)


def is_name(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the name of the match can be a person's."""
    return starts_like_name(groups["name"], clause.cased) and not NOT_NAME.match(groups["name"])


def is_introduction(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether "tôi là …" gives a name rather than an occupation."""
    job = OCCUPATION_HEAD.match(groups["name"])
    return (
        clause.cased
        and is_name(groups, clause)
        and not job
        and not find_technologies(groups["name"])
    )


def is_job(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the title of the match is an occupation."""
    return bool(OCCUPATION_HEAD.match(groups.get("job", "")))


def is_company(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the employer of the match has a name."""
    company = groups["company"]
    return starts_like_name(company, clause.cased) and not NOT_COMPANY.match(company)


def is_local(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether "ở X" names a town: a short run of Vietnamese syllables, and no institution."""
    place = groups.get("place", "")
    return (
        is_place(groups, clause)
        and 2 <= len(place.split()) <= 3
        and all(SYLLABLE.fullmatch(word) for word in place.lower().split())
        and not INSTITUTION.match(place)
        and (not groups.get("job") or is_job(groups, clause))
    )


def is_something(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match says what, beyond a pronoun."""
    return not NOTHING.match(groups["x"])


def is_wish(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match is a goal rather than a request to the assistant."""
    return not REQUESTED.match(groups["x"]) and is_something(groups, clause)


def is_technical(groups: Mapping[str, str], clause: Clause) -> bool:
    """Whether the match names a technology."""
    return bool(find_technologies(groups["x"]))
