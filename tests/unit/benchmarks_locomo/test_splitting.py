"""Messages of the data set split into several of the same speaker."""

from __future__ import annotations

from typing import Any

from benchmarks.locomo.data import LEAST, Data, sentences, split_turns

SAID = "I moved to Glasgow in May. Wow! The new flat has a garden with two old apple trees. Bye."


def session(user: str, *contents: str) -> dict[str, Any]:
    return {
        "user_id": user,
        "conversation_id": f"{user}-1",
        "messages": [
            {"id": f"D1:{place}", "role": "USER", "name": "Ann", "content": content}
            for place, content in enumerate(contents, start=1)
        ],
        "facts": [{"content": "Ann lives in Glasgow.", "evidence": ["D1:1"]}],
        "summary": "A talk.",
    }


def test_pieces_of_a_message_keep_its_speaker_and_order() -> None:
    data = split_turns(Data([session("ann", SAID, "Good for you, really!")], []), "every")
    (split,) = data.sessions
    assert [(said["id"], said["content"]) for said in split["messages"]] == [
        ("D1:1/1", "I moved to Glasgow in May."),
        ("D1:1/2", "Wow! The new flat has a garden with two old apple trees. Bye."),
        ("D1:2/1", "Good for you, really!"),
    ]
    assert {(said["role"], said["name"]) for said in split["messages"]} == {("USER", "Ann")}
    assert split["facts"][0]["evidence"] == ["D1:1/1", "D1:1/2"]
    assert data.name == "LoCoMo, split (every)"


def test_no_word_is_lost_and_no_piece_is_too_short() -> None:
    for text in [
        SAID,
        "Hi!",
        "",
        "猫が好きです。犬も好きです。鳥はどうですか？まだ分かりません。",
        "Xin chào! Anh khoẻ không?",
    ]:
        found = sentences(text)
        assert "".join("".join(found).split()) == "".join(text.split())
        assert len(found) == 1 or all(len(piece) >= LEAST for piece in found), text
