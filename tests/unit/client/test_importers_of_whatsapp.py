"""WhatsApp's exports in the forms that phones of different languages write them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from hitherto_client.importers import ExportReport, ExportUnreadable, read_export


def read(folder: Path, text: str, report: ExportReport | None = None, **options: Any) -> list[Any]:
    path = folder / "chat.txt"
    path.write_text(text, options.pop("encoding", "utf-8"))
    options = {"me": "Ana"} | options
    source = options.pop("source", "whatsapp")
    return list(read_export(source, path, report or ExportReport(), **options))


LOCALES = {
    "zh on Android": "2023/12/20 下午5:46 - Ana: 你好",
    "zh, dates of China": "2023年12月20日 下午5:46 - Ana: 你好",
    "ko on Android": "2023. 12. 20. 오후 5:46 - Ana: 안녕",
    "ar": "\u200f٢٠\u200f/١٢\u200f/٢٠٢٣، ٥:٤٦ م - Ana: أهلا",
    "fa": "۲۰۲۳/۱۲/۲۰،\u200f ۱۷:۴۶ - Ana: سلام",
    "he": "20.12.2023, 17:46 - Ana: שלום",
    "hi": "20/12/2023, 5:46 अपराह्न - Ana: नमस्ते",
    "el": "20/12/2023, 5:46 μ.μ. - Ana: γεια",
    "vi": "20/12/2023 5:46 CH - Ana: chào",
    "vi, the time first": "17:46, 20/12/2023 - Ana: chào",
    "fr of Canada": "2023-12-20 17 h 46 - Ana: salut",
    "fi": "20.12.2023 klo 17.46 - Ana: hei",
    "hu": "2023. 12. 20. 17:46 - Ana: szia",
    "bg": "20.12.2023 г., 17:46 - Ana: здравей",
    "old iPhone": "20/12/2023, 5:46:05 PM: Ana: hi",
    "es": "20/12/23, 5:46\u202fp.\u00a0m. - Ana: hola",
    "en": "12/20/23, 5:46 PM - Ana: hi",
    "th": "20/12/2566 17:46 - Ana: สวัสดี",
    "ms": "20/12/2023, 5:46 PTG - Ana: hai",
    "no space after the colon": "[2023/12/20 17:46:37] Ana:hi",
    "a wide colon": "2023/12/20 17:46 - Ana：你好",
}


def test_lines_of_many_phones_are_read(tmp_path: Path) -> None:
    for locale, line in LOCALES.items():
        report = ExportReport()
        (found,) = read(tmp_path, line, report)
        (message,) = found["messages"]
        # The user's own words have no name.
        assert "name" not in message, locale
        assert message["created_at"].startswith("2023-12-20T17:46"), locale
        assert message["content"] in line, locale
        assert report.notices == 0, locale


def said(folder: Path, *lines: str, report: ExportReport | None = None) -> list[tuple[str, str]]:
    text = "".join(f"{line}\n" for line in lines)
    found = read(folder, text, report)
    return [(one.get("name", "Ana"), one["content"]) for each in found for one in each["messages"]]


def test_nobody_is_silently_left_out_where_the_space_is_missing(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        "[2026/7/9 02:28:36] Ana: I moved.",
        "[2026/7/9 02:28:37] Bo:Hi",
        "[2026/7/9 02:28:38] Bo:See https://example.com at 10:30",
    ) == [("Ana", "I moved."), ("Bo", "Hi"), ("Bo", "See https://example.com at 10:30")]


def test_notices_are_nobodys_words_and_are_counted(tmp_path: Path) -> None:
    report = ExportReport()
    found = said(
        tmp_path,
        "A line before the first message",
        "21/08/2026, 14:30 - Messages and calls are end-to-end encrypted. Learn more",
        '21/08/2026, 14:30 - Ana created group "Trip: Lisbon"',
        "21/08/2026, 14:30 - Ana changed the name to \u201cTrip: Porto\u201d",
        "21/08/2026, 14:31 - Bo joined at 17:30",
        "21/08/2026, 14:31 - More at https://example.com",
        "21/08/2026, 14:32 - Ana: Hello",
        "31/02/2026, 14:32 - Ana: On a day that does not exist",
        report=report,
    )
    assert found == [("Ana", "Hello")]
    assert report.notices == 7


def test_what_stands_for_something_else_is_no_message(tmp_path: Path) -> None:
    for line in [
        "\u200eMessages and calls are end-to-end encrypted.", "\u200eBild weggelassen",
        "\u200e<Anhang: 00000002-PHOTO.jpg>", "Bild weggelassen", "image omitted",
        "<Media omitted>", "<Archivo omitido>", "<This message was edited>",
        "This message was deleted", "This message was deleted.", "Tin nhắn này đã bị xóa",
        "Missed voice call", "null", "IMG-20260821-WA0001.jpg (archivo adjunto)",
        "\u200eIMG-20260821-WA0001.jpg (tệp đính kèm)",
    ]:  # fmt: skip
        report = ExportReport()
        found = said(
            tmp_path,
            f"21/08/2026, 14:30 - Bo: {line}",
            "21/08/2026, 14:31 - Ana: Hi",
            report=report,
        )
        assert found == [("Ana", "Hi")], line
        assert report.notices == 1, line


def test_words_beside_what_stands_for_something_else_are_kept(tmp_path: Path) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [
        (("IMG-1.jpg (file attached)", "Our new house"), "Our new house"),
        (("Our new house \u200e<attached: 1.jpg>",), "Our new house"),
        (("I live in Huế <This message was edited>",), "I live in Huế"),
        (("Vivo en Lima <Se editó este mensaje.>",), "Vivo en Lima"),
        (
            ("Vertrag.pdf • \u200e3 Seiten \u200eDokument weggelassen", "unterschrieben"),
            "unterschrieben",
        ),
        (("I live in Huế \u200e<Tin nhắn này đã được chỉnh sửa>",), "I live in Huế"),
        (("a <b> c", "", "d"), "a <b> c\nd"),
        (("I was told: this message was deleted",), "I was told: this message was deleted"),
        (("1/2 (half)",), "1/2 (half)"),
    ]
    for lines, content in cases:
        first, *further = lines
        assert said(tmp_path, f"21/08/2026, 14:30 - Ana: {first}", *further) == [
            ("Ana", content)
        ], lines


def test_lines_that_begin_like_a_time_go_on_with_the_message(tmp_path: Path) -> None:
    assert said(
        tmp_path,
        "21/08/2026, 14:30 - Ana: My days:",
        "1/2 a day - work: hard",
        "12/5/2023 we met at 10:30 in a small town - nice: very",
        "[1] first: yes",
    ) == [
        (
            "Ana",
            "My days:\n1/2 a day - work: hard\n12/5/2023 we met at 10:30 in a small town - nice:"
            " very\n[1] first: yes",
        )
    ]


def test_an_unknown_half_of_the_day_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(ExportUnreadable, match="`xyz`"):
        read(tmp_path, "21/08/2026, 5:30 xyz - Ana: Hi\n")
    # Hours beyond twelve show that the word means something else.
    text = "21/08/2026, 5:30 xyz - Ana: Hi\n21/08/2026, 17:30 xyz - Ana: Hi\n"
    first, second = read(tmp_path, text)
    assert first["messages"][0]["created_at"].startswith("2026-08-21T05:30")
    assert second["messages"][0]["created_at"].startswith("2026-08-21T17:30")


def test_years_of_another_calendar_are_told(tmp_path: Path) -> None:
    with pytest.raises(ExportUnreadable, match="1402"):
        read(tmp_path, "۱۴۰۲/۹/۲۹،\u200f ۱۷:۴۶ - Ana: سلام\n", dates="year")


@pytest.mark.parametrize(
    ("chat", "media"),
    [
        ("Chat de WhatsApp con Eva.txt", "IMG-20231225-WA0001.jpg"),
        ("Чат WhatsApp с Евой.txt", "notes.txt"),
        ("دردشة واتساب مع Eva.txt", "IMG-20231225-WA0001.jpg"),
        ("WhatsApp Chat with Eva.txt", "WhatsApp Image 2023-12-25 at 21.05.11.jpeg"),
        ("_chat.txt", "WhatsApp Audio 2023-12-25 at 21.05.11.opus"),
        ("_chat.txt", "00000012-notes.txt"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_the_chat_is_found_among_its_media(
    tmp_path: Path, chat: str, media: str, packed: bool
) -> None:
    path = tmp_path / "export"
    texts = {chat: b"25/12/2023, 21:05 - Ana: Hola", media: b"\xff\xd8 nothing of it"}
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
    else:
        path.mkdir()
        for name, text in texts.items():
            (path / name).write_bytes(text)
    (found,) = read_export("whatsapp", path, ExportReport(), me="Ana")
    assert [message["content"] for message in found["messages"]] == ["Hola"]


def test_wide_characters_are_read_and_a_folder_of_pictures_is_no_chat(tmp_path: Path) -> None:
    for mark, encoding in (("", "utf-16"), ("\ufeff", "utf-16-be")):
        line = f"{mark}21/08/2026, 14:30 - Ana: Chào 🐈\n"
        (found,) = read(tmp_path, line, encoding=encoding)
        assert found["messages"][0]["content"] == "Chào 🐈"
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "WhatsApp Image 2023-12-25.jpeg").write_bytes(b"\xff\xd8")
    with pytest.raises(ExportUnreadable, match="holds no text of a chat"):
        list(read_export("whatsapp", tmp_path / "pictures", ExportReport(), me="Ana"))


def test_a_chat_that_was_saved_again_is_the_same_chat(tmp_path: Path) -> None:
    """Browsers and phones number what they save under a name that exists."""
    ids = set()
    for name in ("WhatsApp Chat with Eva.txt", "WhatsApp Chat with Eva (1).txt"):
        (tmp_path / name).write_text("25/12/2023, 21:05 - Ana: Hola", "utf-8")
        (found,) = read_export("whatsapp", tmp_path / name, ExportReport(), me="Ana")
        ids.add((found["conversation_id"], found["messages"][0]["id"]))
    assert len(ids) == 1


def test_a_chat_has_the_name_of_its_text_folder_or_archive(tmp_path: Path) -> None:
    """So that it is the same chat, packed or not, and another one of the same minute is not."""
    line = "25/12/2023, 21:05 - Ana: Hola"
    ids: dict[str, set[str]] = {}
    for chat, kept in (
        ("Eva", "WhatsApp Chat with Eva.txt"),
        ("Dr. Bo", "_chat.txt"),
        ("Zoe", "_chat.txt"),
    ):
        folder = tmp_path / f"WhatsApp Chat - {chat}"
        folder.mkdir()
        (folder / kept).write_text(line, "utf-8")
        packed = tmp_path / ("export.zip" if chat == "Eva" else f"WhatsApp Chat - {chat} (1).zip")
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(kept, line)
        for path in (folder, folder / kept, packed):
            (found,) = read_export("whatsapp", path, ExportReport(), me="Ana")
            ids.setdefault(chat, set()).add(found["conversation_id"])
    assert ids == {chat: {f"whatsapp:{chat}:2023-12-25T21:05"} for chat in ids}


def test_one_of_several_chats_that_cannot_be_read_stops_all(tmp_path: Path) -> None:
    for name in ("Bo", "Eva"):
        line = f"25/12/2023, 21:05 - {name}: Hola"
        (tmp_path / f"WhatsApp Chat with {name}.txt").write_text(line, "utf-8")
    found = read_export("whatsapp", tmp_path, ExportReport(), me="Bo")
    with pytest.raises(ExportUnreadable, match=r"^\(WhatsApp Chat with Eva.txt\) has no messages"):
        next(found)


def test_a_format_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no format 'whatsap': there are chatgpt, claude"):
        read(tmp_path, "x", source="whatsap")


def test_no_conversation_is_of_others_alone(tmp_path: Path) -> None:
    """What nobody but Bo said in it would count as the user's words.

    Where it is cut does not depend on what was said later: a longer export repeats no message.
    """
    lines = (
        "01/13/26, 10:00 - Bo: I live in Hamburg",
        "01/14/26, 10:00 - Ana: Hi",
        "01/15/26, 10:00 - Bo: Hi again",
        "01/16/26, 10:00 - Ana: Hello",
        "01/17/26, 10:00 - Bo: Bye",
    )
    later = (*lines, "01/17/26, 11:00 - Ana: Goodbye")
    for written, told in (
        (lines, [["Hi"], ["Hello"]]),
        (later, [["Hi"], ["Hello"], ["Bye", "Goodbye"]]),
    ):
        found = read(tmp_path, "".join(f"{line}\n" for line in written))
        assert [[one["content"] for one in each["messages"]] for each in found] == told


def test_a_silence_of_six_hours_ends_a_conversation_and_what_is_repeated_stays(
    tmp_path: Path,
) -> None:
    times = ("21/08/2026, 08:30", "21/08/2026, 13:30", "21/08/2026, 18:30", "22/08/2026, 08:30")
    first, second = read(tmp_path, "".join(f"{time} - Ana: Ha\n" for time in (*times, times[3])))
    assert (len(first["messages"]), len(second["messages"])) == (3, 2)
    assert len({one["id"] for one in second["messages"]}) == 2
