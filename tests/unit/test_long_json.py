"""Long JSON means the same as short JSON, and lets other threads run while it is read."""

from __future__ import annotations

import json
import threading
import time

import pytest

from hitherto_shared import long_json
from hitherto_shared.long_json import LONG, MAX_VALUES, TooManyValues, loads


def test_it_is_read_as_by_the_decoder_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[object] = [
        {"a": [1, 2.5, -3e9, True, None, 'é\n"字🙂'], "b": {"c": [{}, []]}},
        [{"content": f"Number {n}, and its square.", "tags": ["a", "b"]} for n in range(900)],
        "a text",
        {str(n): n for n in range(900)},
    ]
    for value in cases:
        for encoding in ["", "utf-8", "utf-16", "utf-8-sig"]:
            monkeypatch.setattr(long_json, "LONG", 1)
            text = json.dumps(value, ensure_ascii=False)
            assert loads(text.encode(encoding) if encoding else text) == value, (value, encoding)


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", '"a', "x" * 100, "[" * 100_000])
def test_what_is_no_json_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "LONG", 1)
    with pytest.raises((ValueError, RecursionError)):
        loads(text)


def test_more_values_than_anybody_asks_for_are_not_read() -> None:
    assert len(loads(f"[{'0,' * (MAX_VALUES - 1)}0]")) == MAX_VALUES
    with pytest.raises(TooManyValues):
        loads(f"[{'0,' * (MAX_VALUES + 1)}0]")


def test_others_have_their_turn() -> None:
    """The decoder in C holds the interpreter from the first to the last of these."""
    text = "{" + ",".join(f'"{n}":{{}}' for n in range(MAX_VALUES)) + "}"
    assert len(text) > LONG
    turns = 0
    reading = threading.Thread(target=loads, args=(text,))
    reading.start()
    while reading.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10
