"""Words that change the meaning of a statement: opposites, negations, intentions.

The lists are deliberately small and closed. They must be correct, not complete: the cosine handles
what they miss, and what they match prevents two memories from overwriting each other. An underscore
joins the words of a phrase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile, pairwise

_TABLE = """
like likes liked love loves loved enjoy enjoys enjoyed adore adores prefer prefers thích yêu mê
  gusta aime mag | dislike dislikes disliked hate hates hated detest detests loathe loathes ghét
  odia déteste hasst
increase increases increased grow grows grew rise rises rose raise raised gain gained tăng |
  decrease decreases decreased shrink shrank fall fell drop dropped reduce reduces reduced lose lost
  giảm
left | right
trái | phải
morning mornings buổi_sáng sáng | noon lunchtime buổi_trưa | afternoon afternoons buổi_chiều chiều |
  evening evenings night nights tối buổi_tối đêm ban_đêm
yesterday hôm_qua | today tonight hôm_nay | tomorrow ngày_mai
last trước ngoái | next sau tới
spring mùa_xuân | summer mùa_hè | autumn mùa_thu | winter mùa_đông
vegetarian vegetarians ăn_chay | vegan vegans thuần_chay | meat carnivore ăn_mặn | pescatarian
start starts started starting begin begins began beginning bắt_đầu | stop stops stopped stopping
  quit quits end ends ended finish finishes finished dừng ngừng bỏ kết_thúc
accept accepts accepted agree agrees agreed approve approved đồng_ý chấp_nhận | decline declines
  declined reject rejects rejected refuse refuses refused disagree disagrees từ_chối
more nhiều | less fewer ít
often frequently usually always thường luôn | sometimes occasionally | rarely seldom hiếm
early sớm | late muộn trễ
buy buys bought purchased mua | sell sells sold bán
married kết_hôn | divorced ly_hôn ly_dị separated | single độc_thân | engaged | widowed
open opens opened mở | close closes closed đóng
public công_khai | private riêng_tư
remote remotely từ_xa | office onsite văn_phòng | hybrid
light sáng_màu | dark
short brief concise terse ngắn ngắn_gọn | long lengthy detailed verbose thorough dài chi_tiết
formal formally trang_trọng | informal informally casual casually thân_mật
hot nóng | cold iced lạnh
indoor indoors | outdoor outdoors
older | younger
old cũ | new mới
full | part
enable enables enabled bật | disable disables disabled tắt
allow allows allowed cho_phép | forbid forbids forbidden deny denied cấm
win wins won | loses losing
pass passes passed đậu đỗ | fail fails failed trượt rớt
join joins joined gia_nhập | leave leaves rời
alive | dead died deceased mất
max maximum tối_đa | min minimum tối_thiểu
best tốt_nhất | worst tệ_nhất
before | after
mother mom mum mẹ | father dad bố cha
sister sisters chị_gái em_gái | brother brothers anh_trai em_trai
wife vợ | husband chồng | girlfriend bạn_gái | boyfriend bạn_trai
daughter daughters con_gái | son sons con_trai
aunt | uncle
niece | nephew
grandmother grandma | grandfather grandpa
cat cats mèo | dog dogs chó
tea trà | coffee cà_phê
red đỏ | blue | green | yellow vàng | black đen | white trắng | purple tím | orange cam | pink hồng
  | brown nâu | grey gray xám
second seconds giây | minute minutes min mins phút | hour hours hr hrs tiếng giờ | day days daily
  ngày | week weeks weekly tuần | month months monthly tháng | year years yearly annually
kg kilo kilos kilogram kilograms | lb lbs pound pounds | gram grams | mg milligram milligrams
km kilometre kilometres kilometer kilometers | mile miles
$ usd dollar dollars đô | € eur euro euros | £ gbp | ₫ vnd đồng | ¥ yen jpy
👍 | 👎
"""
"""A group on each line, which may go on in the next: its alternatives, and the words for each."""
_GROUPS = [row.split("|") for row in _TABLE.replace("\n  ", " ").strip().splitlines()]

_NOT = frozenset(
    # No list covers every language; these are the words without a counterpart elsewhere in it.
    "not no never cannot none nobody nothing nor neither non without except dont doesnt didnt isnt "
    "cant wont không ko khong chưa chẳng chả chang đừng nunca jamás sin não sem jamais pas sans "
    "nicht kein keine keinen keiner nie niemals ohne niet geen senza не нет никогда без ни tidak "
    "bukan tanpa değil inte ikke aldrig aldri utan uden uten eivät emme δεν μην χωρίς nem soha "
    "nincs fără nie لا ليس لم لن غير لا לא אין नहीं ไม่ 안 못".split()
)
_NOT_CHARACTERS = "不没沒未無无않없"
_NOT_BESIDE = {
    # Finnish, but not the German egg; Romanian, but not the Dutch "now".
    "ei": ("käyttäj", "kayttaj", "hän"),
    "nu": ("utilizato", "și", "să"),
}
"""Words that deny only in a text with a word that begins like one of these."""
NAMES_TOO = frozenset(("Nie", "Sem", "Soha", "Uden"))
"""Words that deny in one language and are names in another, as they stand within a clause."""
_ENDED = (
    "no_longer no_more không_còn used_to formerly previously former ex trước_đây từng больше_не "
    "уже_не nicht_mehr niet_meer ya_no já_não już_nie inte_längre ikke_lenger ikke_længere nu_mai"
)
_PLANNED = (
    "want_to wants_to wanted_to plan_to plans_to planning intend_to intends_to hope_to hopes_to "
    "will going_to would_like_to considering thinking_of thinking_about might dự_định dự_kiến "
    "định_chuyển định_đi định_sống định_mua định_bán định_thuê "
    "muốn sẽ möchte möchten wollen quiere quiero quisiera veut veux voudrait quero vuole "
    "voglio vorrei хочет хочу хотят собирается собираюсь планирует планирую"
)
_ONLY = "only solely exclusively chỉ"
_PHRASE = 3
_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non")


Index = Mapping[tuple[str, ...], Sequence[tuple[int, int]]]


def index_of(groups: Sequence[Sequence[str]]) -> Index:
    """Phrase → the (group, alternative) pairs it belongs to."""
    found: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for group, rows in enumerate(groups):
        for alternative, row in enumerate(rows):
            for phrase in row.split():
                found.setdefault(tuple(phrase.split("_")), []).append((group, alternative))
    return found


_OPPOSITES = index_of(_GROUPS)
_MARKERS = index_of(((_ENDED,), (_PLANNED,), (_ONLY,)))
_MARKER_NAMES = ("no longer", "intended", "only")
_DENIAL_AND_END = frozenset(
    (*words,)
    for phrase in _ENDED.split()
    if len(words := phrase.split("_")) > 1 and not _NOT.isdisjoint(words)
)
_NOT_ANY_MORE = frozenset("anymore più nữa enää".split())
"""Words that end what a word before them denies."""
_ACROSS = frozenset("durch über zu zum zur auf in im unter hinter gegen und".split())
"""Words behind the German "quer", which is Portuguese for "wants" before any other."""


def mentions(words: Sequence[str], index: Index) -> dict[int, set[int]]:
    """Group → the mentioned alternatives of it; the longest phrase at a position wins."""
    found: dict[int, set[int]] = {}
    at = 0
    while at < len(words):
        for length in range(min(_PHRASE, len(words) - at), 0, -1):
            hits = index.get(tuple(words[at : at + length]), ())
            for group, alternative in hits:
                found.setdefault(group, set()).add(alternative)
            if hits:
                at += length - 1
                break
        at += 1
    return found


LIKING = 0
"""The group of words for liking and disliking."""


def alternatives(words: Sequence[str]) -> dict[int, set[int]]:
    """The sides of pairs of opposites that a list of casefolded words mentions."""
    return mentions(words, _OPPOSITES)


def is_phrase(*words: str) -> bool:
    """Whether casefolded words form one phrase of the lists of opposites ("ngắn gọn")."""
    return words in _OPPOSITES


def opposed(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """The pairs of opposites by which two lists of casefolded words differ.

    A word without a counterpart in the other text is an elaboration, not an opposite: "likes
    coffee" and "likes coffee in the morning" do not conflict.
    """
    left, right = mentions(a, _OPPOSITES), mentions(b, _OPPOSITES)
    found = [
        f"{_head(group, left[group])} / {_head(group, right[group])}"
        for group in sorted(left.keys() & right.keys())
        if left[group] != right[group]
    ]
    only_a, only_b = set(a) - set(b), set(b) - set(a)
    for word, other in [*((word, only_b) for word in only_a), *((word, only_a) for word in only_b)]:
        # From four letters on: "on" and "in" + "on" are not a pair.
        made = [prefix + word for prefix in _PREFIXES if len(word) > 3 and prefix + word in other]
        found += [f"{word} / {opposite}" for opposite in made]
    return sorted(found)


def _head(group: int, alternatives: set[int]) -> str:
    return "+".join(_GROUPS[group][number].split()[0] for number in sorted(alternatives))


def markers(words: Sequence[str]) -> dict[str, int]:
    """How often a text denies, and whether it is about something ended, intended or exclusive."""
    found = {_MARKER_NAMES[group]: 1 for group in mentions(words, _MARKERS)}
    pairs = list(pairwise(words))
    if any(word == "quer" and after not in _ACROSS for word, after in pairs):
        found["intended"] = 1
    denials = sum(_denials(word, words) for word in words)
    # "no longer" and "không còn" contain a denial that they already represent.
    consumed = sum(pair in _DENIAL_AND_END for pair in pairs)
    behind = list(dropwhile(lambda word: not _denials(word, words), words))
    if denials > consumed and not _NOT_ANY_MORE.isdisjoint(behind):
        consumed += 1
        found["no longer"] = 1
    # French; "non plus" is "neither", beside a denial.
    consumed += ("non", "plus") in pairs and denials > consumed + 1
    ends = any(word != "non" and after == "plus" for word, after in pairs)
    if ends and any(word == "ne" or word.startswith("n'") for word in words):
        found["no longer"] = 1
    if denials > consumed:
        found["not"] = denials - consumed
    return found


def _denials(word: str, words: Sequence[str]) -> int:
    if word in _NOT or word.endswith("n't"):
        return 1
    if beside := _NOT_BESIDE.get(word):
        return int(any(each.startswith(beside) for each in words))
    return sum(word.count(character) for character in _NOT_CHARACTERS)
