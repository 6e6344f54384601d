"""A line of a WhatsApp chat as phones write it anywhere: its time, and what stands for no words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from hitherto_client.importers.reading import ExportUnreadable

DateOrder = Literal["day", "month", "year"]

LEFT_TO_RIGHT = "\u200e"
"""WhatsApp writes it before what no person wrote: notices, and names of what was attached."""
_MARKS = dict.fromkeys(map(ord, "\u200e\u200f\u202a\u202c\ufeff"))
_HEAD_CHARACTERS = 64
_DASHES = (" - ", " \u2013 ")
# `21.08.26`, `2023. 12. 20.`, `2023年12月20日`.
_DATE = re.compile(r"(\d{1,4})\s?[./\-년年]\s?(\d{1,2})\s?[./\-월月]\s?(\d{1,4})[.일日]?")
# `17:46:05`, `17.46`, `17 h 46`, `5시 46분`.
_TIME = re.compile(r"(\d{1,2})\s?[:.h시時时点]\s?(\d\d)(?:[:.](\d\d))?(?!\d)")
_BEFORE_A_NAME = re.compile(r"\d:\d\d(?::\d\d)?(?: [^\W\d]\.? ?[^\W\d]\.?)?(?=: )")
_BETWEEN_WORDS = re.compile(r"[\s,\u060c\u061b:\-]+")
_MOST_WORDS = 4

_MORNING = frozenset(
    "am πμ ص صباحًا قظ sa sáng 上午 早上 凌晨 清晨 오전 午前 de öö дп проб vm pg pd לפנה״צ "
    "पूर्वाह्न পূর্বাহ্ণ முற்பகல் ก่อนเที่ยง".split()
)
_AFTERNOON = frozenset(
    "pm μμ م مساءً بظ ch chiều tối 下午 中午 晚上 오후 午後 du ös пп слоб nm ptg md אחה״צ "
    "अपराह्न অপরাহ্ণ பிற்பகல் หลังเที่ยง".split()
)
"""The halves of a day as phones name them, without dots."""
_CONNECTING = frozenset("à às at alle h kl klo las lúc o ob om u uhr um в г о об 분 分".split())
_BUDDHIST_YEARS = 543


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a line was written, as far as the line itself says.

    Attributes:
        date: The three numbers of the date, in their order.
        clock: Hour, minute and second, as written.
        half: `am` or `pm`; empty if the line names none.
        unknown: A word beside the time whose meaning is not known; empty if there is none.
    """

    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half: str
    unknown: str

    def at(self, order: DateOrder, zone: tzinfo) -> datetime | None:
        """The moment; None if there is no such day or time."""
        a, b, c = self.date
        year, month, day = {"year": (a, b, c), "day": (c, b, a), "month": (c, a, b)}[order]
        if year < 100:
            year += 2000
        elif 2400 <= year < 2800:
            year -= _BUDDHIST_YEARS
        elif 1300 <= year < 1600:
            raise ExportUnreadable(
                f"counts its years as {year}: export the chat with the phone set to the Gregorian"
                " calendar"
            )
        hour, minute, second = self.clock
        if self.half:
            hour = hour % 12 + (12 if self.half == "pm" else 0)
        try:
            return datetime(year, month, day, hour, minute, second, tzinfo=zone)
        except ValueError:
            return None


def stamped(line: str) -> tuple[Stamp, str] | None:
    """The stamp of a line and what follows it; None if the line goes on with the one before."""
    line = line.lstrip("\u200e\u200f\u202a\ufeff ")
    if line.startswith("["):
        end = line.find("]", 0, _HEAD_CHARACTERS)
        ends = [end + 1] if end > 0 else []
    elif line[:1].isdigit():
        ends = [place + len(dash) for dash in _DASHES if (place := _find(line, dash)) >= 0]
        if not ends and (old := _BEFORE_A_NAME.search(line[:_HEAD_CHARACTERS])) is not None:
            ends = [old.end() + 2]
    else:
        return None
    for end in ends:
        stamp = _stamp(line[:end])
        if stamp is not None:
            return stamp, line[end:]
    return None


def _find(line: str, dash: str) -> int:
    return line.replace("\u00a0", " ").find(dash, 0, _HEAD_CHARACTERS)


def _stamp(head: str) -> Stamp | None:
    """What the words before a name say, if they are a date and a time and nothing else."""
    plain = unicodedata.normalize("NFKC", head.translate(_MARKS)).casefold()
    plain = "".join(str(unicodedata.decimal(letter, letter)) for letter in plain)
    date = _DATE.search(plain)
    if date is None:
        return None
    plain = f"{plain[: date.start()]} , {plain[date.end() :]}"
    time = _TIME.search(plain)
    if time is None:
        return None
    rest = f"{plain[: time.start()]} , {plain[time.end() :]}".strip("[]() \u2013")
    words = [
        word
        for word in _BETWEEN_WORDS.split(rest.replace(". ", "").replace(".", ""))
        if word and word != "\u2013"
    ]
    if len(words) > _MOST_WORDS or any(letter.isdigit() for letter in rest):
        return None
    half = next(
        (
            name
            for word in words
            for name, known in (("am", _MORNING), ("pm", _AFTERNOON))
            if word in known
        ),
        "",
    )
    known = _MORNING | _AFTERNOON | _CONNECTING
    a, b, c = (int(number) for number in date.groups())
    hour, minute, second = (int(number or 0) for number in time.groups())
    return Stamp(
        (a, b, c),
        (hour, minute, second),
        half,
        next((word for word in words if word not in known), ""),
    )


def order_of(stamps: Iterable[Stamp]) -> DateOrder:
    """Which part of these dates comes first, as the dates themselves show."""
    dates = [stamp.date for stamp in stamps]
    first, second = max(date[0] for date in dates), max(date[1] for date in dates)
    if first > 31:
        return "year"
    if first > 12:
        return "day"
    if second > 12:
        return "month"
    raise ExportUnreadable(
        "has dates that can be read in two ways: say which part comes first, with --dates day or"
        " --dates month"
    )


def check_clock(stamps: Iterable[Stamp]) -> None:
    """Refuse times whose hours go to twelve with a word that may name either half of the day."""
    seen = list(stamps)
    unknown = sorted({stamp.unknown for stamp in seen if stamp.unknown and not stamp.half})
    if unknown and all(1 <= stamp.clock[0] <= 12 for stamp in seen):
        words = " and ".join(f"`{word}`" for word in unknown[:4])
        raise ExportUnreadable(
            f"has times with {words}, of which it is not known whether it is morning or afternoon:"
            " export the chat with the phone set to a clock of 24 hours"
        )


# A name of an attached file with a remark in brackets, something in angle brackets, or what an
# older iPhone writes without its mark.
_ATTACHED = re.compile(r"<[^<>]{1,60}>|\S{1,120}\.\w{2,5} \([^()]{3,40}\)|.{1,80} omitted")
# `Vertrag.pdf • ‎3 Seiten ‎Dokument weggelassen`, as iPhones name a document: what they wrote
# themselves is marked.
_DOCUMENT = re.compile(
    rf".{{1,200}}\.\w{{1,8}}(?: • {LEFT_TO_RIGHT}[^{LEFT_TO_RIGHT}]{{1,40}})?"
    rf" {LEFT_TO_RIGHT}[^{LEFT_TO_RIGHT}]{{1,60}}"
)
_MARKED_END = re.compile(rf" ?{LEFT_TO_RIGHT}<[^<>]{{1,80}}>$")
_EDITED = re.compile(r" ?<([^<>]{1,80})>$")

_STOPS = ".。"
_EDITED_WORDS = frozenset(
    (
        "this message was edited / diese nachricht wurde bearbeitet / se editó este mensaje / "
        "ce message a été modifié / mensagem editada / questo messaggio è stato modificato / "
        "dit bericht is bewerkt / pesan ini diedit / tin nhắn này đã được chỉnh sửa / "
        "bu mesaj düzenlendi / данное сообщение изменено"
    ).split(" / ")
)
_NO_WORDS = frozenset(
    (
        "null / "
        # English
        "this message was deleted / you deleted this message / missed voice call / "
        "missed video call / waiting for this message. this may take a while / "
        # German
        "diese nachricht wurde gelöscht / du hast diese nachricht gelöscht / "
        "verpasster sprachanruf / verpasster videoanruf / bild weggelassen / video weggelassen / "
        "audio weggelassen / sticker weggelassen / dokument weggelassen / "
        # Spanish
        "se eliminó este mensaje / este mensaje fue eliminado / eliminaste este mensaje / "
        "llamada perdida / videollamada perdida / imagen omitida / video omitido / "
        "audio omitido / sticker omitido / documento omitido / "
        # French
        "ce message a été supprimé / vous avez supprimé ce message / appel vocal manqué / "
        "appel vidéo manqué / image absente / vidéo absente / audio omis / "
        # Portuguese
        "mensagem apagada / esta mensagem foi apagada / você apagou esta mensagem / "
        "imagem ocultada / vídeo ocultado / áudio ocultado / figurinha omitida / "
        # Italian
        "questo messaggio è stato eliminato / hai eliminato questo messaggio / immagine omessa / "
        "video omesso / audio omesso / "
        # Dutch
        "dit bericht is verwijderd / dit bericht werd verwijderd / "
        "je hebt dit bericht verwijderd / afbeelding weggelaten / "
        # Indonesian
        "pesan ini dihapus / anda menghapus pesan ini / "
        # Vietnamese
        "tin nhắn này đã bị xóa / tin nhắn này đã bị xoá / bạn đã xóa tin nhắn này / "
        "bạn đã xoá tin nhắn này / "
        # Turkish
        "bu mesaj silindi / bu mesajı sildiniz / "
        # Russian
        "сообщение удалено / данное сообщение удалено / вы удалили данное сообщение / "
        # Chinese, Japanese, Korean
        "此消息已删除 / 你已删除此消息 / このメッセージは削除されました / 삭제된 메시지입니다"
    ).split(" / ")
)


def words_of(said: str) -> str:
    """What a person wrote of a message; empty if the message only stands for something else.

    A caption under the name of an attached file is kept.
    """
    kept = [_MARKED_END.sub("", line) for line in said.split("\n")]
    kept = [line for line in kept if line and not line.startswith(LEFT_TO_RIGHT)]
    if kept and any(form.fullmatch(kept[0].strip()) for form in (_ATTACHED, _DOCUMENT)):
        del kept[0]
    text = "\n".join(kept).replace(LEFT_TO_RIGHT, "").replace("\u200f", "").strip()
    last = text[-90:]
    edited = _EDITED.search(last)
    if edited is not None and edited[1].casefold().rstrip(_STOPS) in _EDITED_WORDS:
        text = text[: len(text) - len(last) + edited.start()].strip()
    return "" if text.casefold().rstrip(_STOPS) in _NO_WORDS else text
