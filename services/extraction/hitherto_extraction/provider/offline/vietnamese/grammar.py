"""The grammar around the Vietnamese rules: pronouns, particles, clauses, questions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hitherto_extraction.provider.offline.language import Language, Phrases
from hitherto_extraction.provider.offline.vietnamese import doings, identity, life, opinions

_I = re.IGNORECASE
# "em", "anh", "chị", "con", "cháu" also address others or name relatives; what follows tells.
_OTHERS = (
    r"(?! (?:tôi|mình|tớ|tui|nhà|ấy|ta|kia|đó|này|gái|trai|họ|dâu|rể|"
    r"yêu|em|chị|bé|nuôi|út|cả|hai|ba|rất vui|ơi|mèo|chó|đường|"
    r"số|người|có thể|giúp|hãy|nên|thấy sao)(?!\w))"
)
_PRONOUN = re.compile(
    r"(?<!\w)(?:(?:bọn|tụi|chúng|nhóm|team|phe)\s+(?:tôi|mình|tớ|em|tui)|tôi|tớ|tui|mình|"
    r"(?<!bạn )(?<!giúp )(?:em|anh|chị|cháu|con)" + _OTHERS + r")(?!\w)",
    _I,
)
_KINSHIP = frozenset({"em", "anh", "chị", "cháu", "con"})
_SPLIT = re.compile(
    r"\s*[;]\s*|\s+[-–—]+\s+|,\s*(?:và|nhưng|nên|còn|mà|rồi|vì|do)?\s*"
    r"(?=(?:(?:(?:hôm|sáng|trưa|chiều|tối|đêm) (?:nay|qua)|bây giờ|giờ) tôi|"
    r"tôi|hiện|đang|hiện đang|làm|sống|quê|bạn|năm nay|từ giờ|"
    r"hãy|đừng|có lẽ|cứ gọi|vừa|mới|thích|ghét)(?!\w))"
    r"|\s+(?:và|nhưng|nên|mà|vì|rồi)\s+(?=(?:tôi|hiện|đang|làm|sống|"
    r"thích|ghét|muốn|quê|vợ|chồng|nhà tôi)(?!\w))",
    _I,
)
_POSSESSED = re.compile(
    r"(?<!\w)(?:gái|trai|vợ|chồng|bố|mẹ|ba|má|sếp|bạn|em|anh|chị|con|"
    r"ông|bà|thầy|cô|nghiệp|nhà|cháu)"
    r"(?:\s+của)?\s+$",
    _I,
)
_CONTINUES = re.compile(r"^(?:hiện đang|hiện|đang|vừa|mới|làm|sống|quê|thích|ghét|muốn)(?!\w)", _I)
_OPENING = re.compile(
    r"^(?:(?P<greeting>xin chào|chào|hello|hi|hey|alo|dạ)(?: (?:bạn|"
    r"anh|chị|em|mọi người|cả nhà|ad))?|dạ|vâng|ừ|à|ờ|"
    r"ok|oke|okay|thật ra|thực ra|nói thật|nhân tiện|tiện thể|cảm ơn(?: "
    r"bạn)?|thì|và|nhưng|nên|với lại|ngoài ra|hiện tại|"
    r"hiện nay|hiện giờ|bây giờ|dạo này|gần đây|lúc này|cuối cùng|bật "
    r"mí là|nói thêm là|nhớ là|hãy nhớ(?: là| rằng)|"
    r"(?:bạn )?(?:nhớ|ghi nhớ|lưu ý)(?: giúp)?(?: tôi)? (?:là|rằng)|"
    r"tin vui(?: là)?|cập nhật(?: là)?|may quá|tiếc là|còn|vì|"
    r"do|thật sự thì|nói chung|à mà|mà|cuối tuần|bình thường|năm nay|"
    r"rốt cuộc|(?:(?:vậy|thế)(?: là| thì| nên)?|giờ)(?= tôi(?!\w)))(?!\w)[\s,!:.-]*",
    _I,
)
_CLOSING = re.compile(
    r"[\s,]*(?:(?<!\w)(?:nhé|nha|nhá|ạ|nè|đấy|á|hen|luôn|rồi|thôi|vậy|"
    r"ha|nghen|hihi|haha+|hehe|"
    r"hiện tại|hiện nay|bây giờ|dạo này|lắm|đó|giúp tôi|cho tôi|giùm "
    r"tôi|với|nữa|giúp mình|dùm tôi)|[.!…]+)$",
    _I,
)
_DENIED = re.compile(
    r"^tôi (?:không(?: còn)?(?P<be> phải(?: là)?)?|chưa|chẳng|đâu có|"
    r"chưa bao giờ) (?!thích|ăn|uống|hút)",
    _I,
)
_ENDED = re.compile(
    r"^tôi (?:đã )?(?:không còn (?P<still>.+?)(?: nữa)?|không (?P<more>.+?) "
    r"nữa|thôi không (?P<gave>.+?)(?: nữa)?)[.!]*$",
    _I,
)


def _clauses(sentence: str) -> list[str]:
    def pronoun(match: re.Match[str]) -> str:
        before = sentence[: match.start()]
        low = match.group().lower()
        if re.search(r"(?<!\w)bạn\s+$", before, _I):
            # "bạn mình" speaks of a friend.
            return match.group()
        if low == "mình" and re.search(r"(?:một|tự|chính)\s+$", before, _I):
            return match.group()
        if low in _KINSHIP and match.group().istitle() and before:
            # Capitals inside a sentence make it a name.
            return match.group()
        shouted = match.group().isupper() and len(match.group()) > 1 and sentence.isupper()
        return "TÔI" if shouted else "tôi"

    plain = " ".join(_PRONOUN.sub(pronoun, sentence).split())
    found: list[str] = []
    for part in _SPLIT.split(plain):
        clause = part.strip(" ,")
        if not clause:
            continue
        if found and _CONTINUES.match(clause):
            speaker = re.search(r"(?<!\w)tôi(?!\w)", found[-1], _I)
            if speaker and not _POSSESSED.search(found[-1][: speaker.start()]):
                clause = f"tôi {clause}"
            else:
                # Its subject is somebody else; it belongs to the clause before.
                found[-1] += f", {clause}"
                continue
        found.append(clause)
    return found


def _trim(clause: str) -> tuple[str, bool]:
    greeted = False
    while match := _OPENING.match(clause):
        greeted = greeted or match["greeting"] is not None
        clause = clause[match.end() :]
    # "Cuối cùng tôi cũng…" and "Hôm qua tôi…" leave the pronoun first; "đang…" alone lost it.
    before = ""
    while clause != before:
        before, clause = clause, _CLOSING.sub("", clause).strip()
    return clause, greeted


def _denied(clause: str) -> str | None:
    match = _DENIED.match(clause)
    return ("tôi là " if match["be"] else "tôi ") + clause[match.end() :] if match else None


def _ended(clause: str) -> str | None:
    match = _ENDED.match(clause)
    if not match:
        return None
    return "tôi " + (match["still"] or match["more"] or match["gave"])


def _about_user(content: str, names: Sequence[str]) -> str | None:
    who = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    expression = re.compile(rf"(?<!\w)(?:người dùng{'|' + who if who else ''})(?!\w)", _I)
    if not expression.search(content):
        return None
    return re.sub(r"^(?:tôi) (?:này|đó) ", "tôi ", expression.sub("tôi", content))


def _same(verb: str) -> str:
    return verb


def _shift(text: str) -> str:
    text = re.sub(r"(?<!\w)của bạn(?!\w)", "của trợ lý", text, flags=_I)
    return re.sub(r"(?<!\w)tôi(?!\w)", "mình", text, flags=_I)


_STYLES = [
    (attribute, value, re.compile(text, _I))
    for attribute, value, text in (
        (
            "answer_length",
            "short",
            r"ngắn gọn|súc tích|ngắn thôi|thật ngắn|ngắn lại|ngắn hơn|thẳng vào",
        ),
        ("answer_length", "detailed", r"chi tiết|kỹ hơn|dài hơn|cặn kẽ|đầy đủ"),
        ("answer_format", "bullet points", r"gạch đầu dòng"),
        ("answer_format", "step by step", r"từng bước"),
    )
]
_ANSWER_LANGUAGE = re.compile(r"bằng (?P<language>tiếng [^\W\d_]+)", _I)


def _style(clause: str) -> dict[str, str]:
    if not re.search(r"trả lời|giải thích|phản hồi|viết|nói|nhắn", clause, _I):
        return {}
    found: dict[str, str] = {}
    for attribute, value, expression in _STYLES:
        if attribute not in found and expression.search(clause):
            found[attribute] = value
    if match := _ANSWER_LANGUAGE.search(clause):
        found["answer_language"] = match["language"]
    return found


_FUNCTION_WORDS = (
    "tôi mình tớ tui là ở của không và đang có cho với này đó thì mà được một những các "
    "đã sẽ rất cũng nhé ạ vậy sao gì nào khi nếu như người để trong từ giờ bạn em anh chị "
    "làm thích hãy bị chưa rồi hôm ngày năm tên dùng đừng thế câu giúp quá về nhà đâu nha "
    "ơi nên hay chào cảm ơn vợ chồng con mới"
)

VIETNAMESE = Language(
    code="vi",
    subject="Người dùng",
    rules=(
        *identity.RULES,
        *opinions.RULES,
        *doings.RULES,
        *life.RULES,
        doings.DEED,
        identity.INTRODUCTION,
    ),
    common=re.compile(r"(?:một|nhà|đây|quán|tiệm|xưởng|nước|ca|cửa hàng)(?!\w)", _I),
    function_words=frozenset(_FUNCTION_WORDS.split()),
    stop_words=frozenset(
        (
            _FUNCTION_WORDS + " người dùng muốn định dự mục tiêu đến vào ra cùng lúc hơn nữa theo "
            "vì nhưng mong cố gắng kế hoạch trước sau"
        ).split()
    ),
    clauses=_clauses,
    trim=_trim,
    hedge=re.compile(
        r"^(?:tôi (?:nghĩ|đoán|tin|thấy|cảm thấy)(?: là| rằng)? |có lẽ |"
        r"chắc(?: là)? |hình như |có vẻ )(?=tôi(?!\w))",
        _I,
    ),
    refuse=re.compile(
        r"(?<!\w)(?:nếu|giá mà|giá như|ước gì|phải chi|giả sử|giả dụ|tưởng "
        r"tượng|ví dụ (?:như )?tôi|"
        r"chưa bao giờ nói|không hề nói|chưa từng nói|không nói là|theo "
        r"bài báo|theo báo|đùa thôi|nói đùa|"
        r"trong (?:mơ|truyện|phim|game)|cứ cho là|coi như tôi)(?!\w)",
        _I,
    ),
    refuse_rest=re.compile(
        r"^(?:hãy |bạn |giúp tôi |giúp mình |làm ơn |nhờ bạn |có thể )*(?:dịch|"
        r"viết lại|tóm tắt|sửa (?:lỗi|câu|đoạn|chính tả)|"
        r"đóng vai|tưởng tượng|giả vờ|giả sử|giả bộ|nhập vai|kể (?:cho tôi "
        r")?(?:một )?(?:câu )?chuyện|"
        r"(?:viết|soạn|sáng tác)(?: giúp tôi| cho tôi| giúp mình)? (?:một "
        r"|bài |đoạn |câu |lá |cái )*(?:chuyện|truyện|thơ|văn|thư|"
        r"email|kịch bản|lời|bài hát|tin nhắn|bio|status|đoạn văn|bài đăng))(?!\w)",
        _I,
    ),
    question=re.compile(
        r"(?<!\w)(?:không|chưa|gì|đâu|nhỉ|hả|thế nào|ra sao|như nào|bao "
        r"nhiêu|bao lâu|khi nào|tại sao|vì sao|sao vậy|hay không|"
        r"được không|phải không|đúng không|ai|nào)(?: vậy| thế| ạ| nhỉ| "
        r"đây| bạn| ta)?[.!…]*$"
        r"|^(?:làm sao|làm thế nào|tại sao|vì sao|sao|có phải|liệu|bao giờ|"
        r"ai|khi nào|bạn có (?:biết|nhớ|thể)|có nên)(?!\w)"
        r"|(?<!\w)(?:tôi có nên|có nên .+ không)(?!\w)",
        _I,
    ),
    asks=re.compile(
        r"(?<!\w)(?:không|chưa|gì|đâu|nhỉ|hả|thế nào|ra sao|như nào|bao "
        r"nhiêu|bao lâu|khi nào|tại sao|vì sao|phải không|đúng không|"
        r"sao|ai|nào)$|^(?:làm sao|làm thế nào|tại sao|vì sao|sao|còn|thế|"
        r"vậy|có|bạn|liệu|cách|nên)(?!\w)|(?<!\w)(?:làm sao|làm thế nào|"
        r"nên .+ gì)(?!\w)",
        _I,
    ),
    how_to=re.compile(
        r"^(?:.*?(?<!\w))?(?:làm sao để|làm sao|làm thế nào để|làm cách "
        r"nào để|cách nào để|cách để|chỉ (?:tôi|mình|em) cách|"
        r"hướng dẫn (?:tôi|mình|em)?(?: cách)?|cách)\s+([^?？]+)",
        _I,
    ),
    request=re.compile(r"^(?:bạn )?có thể(?!\w)", _I),
    denied=_denied,
    ended=_ended,
    ended_form="{s} không còn {x} nữa.",
    about_user=_about_user,
    third_person=_same,
    shift=_shift,
    style=_style,
    thanks=re.compile(
        r"(?<!\w)(?:cảm ơn|cám ơn|thanks|tks|chạy (?:được )?rồi|được rồi|"
        r"ok rồi|xong rồi|ổn rồi|hết lỗi|fix được|"
        r"sửa được|giải quyết (?:được|xong))(?!\w)(?! trước)",
        _I,
    ),
    later=re.compile(
        r"(?<!\w)(?:quay lại sau|(?:mai|lát|tối|tuần sau|hôm sau) (?:tôi "
        r"|mình |em )?(?:quay lại|hỏi tiếp|làm tiếp|thử|nói tiếp)|"
        r"sẽ quay lại|nói tiếp sau|để (?:mai|sau)|hẹn gặp lại|làm tiếp sau|"
        r"vẫn (?:chưa|lỗi|bị|không))(?!\w)",
        _I,
    ),
    phrases=Phrases(
        asked="{s} hỏi: {x}",
        wrote="{s} viết: {x}",
        go_on="Bạn có muốn tiếp tục với {x}?",
        solved="Vấn đề này đã xong chưa: {x}?",
        goal="Việc này tiến triển thế nào: {x}?",
        reached="{s} đã làm được: {x}.",
        topics={
            "name": "giới thiệu",
            "residence": "nơi ở",
            "work": "công việc",
            "family": "gia đình",
            "pets": "thú cưng",
            "health": "sức khỏe",
            "food": "ăn uống",
            "goal": "mục tiêu",
            "travel": "đi lại",
            "education": "học tập",
            "answer_style": "cách trả lời",
            "hobby": "sở thích",
            "project": "dự án",
        },
    ),
    shared_words=2,
    announces=re.compile(
        r"^(?:tôi )?(?:(?:đã|cũng|vừa|mới|cuối cùng|thế là) )*(?:làm được(?: điều đó| việc đó)?|"
        r"thành công|(?:đạt(?: được)?|hoàn thành) mục tiêu(?: của tôi)?)$"
        r"|^mục tiêu (?:của tôi )?(?:đã )?(?:đạt(?: được)?|hoàn thành|xong)$",
        _I,
    ),
    stem=_same,
    unaccented=frozenset(
        "minh khong duoc nhe roi nguoi nhu cua voi toi ban dang trong nhung cung gio hom thich "
        "muon lam biet chua nay vay phai gap dien hoi".split()
    ),
)
