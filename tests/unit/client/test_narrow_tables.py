"""What a table shows where the terminal is too narrow for it."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from hitherto_client.command import main
from tests.unit.client.fake_services import Fakes

ID = "0198c0de-7a11-7000-8000-000000000001"
SAID = normalize("NFC", "Người dùng thích uống cà phê sữa đá và không ăn được hải sản 🦐.")


@pytest.mark.parametrize("width", [160, 80, 50])
def test_words_and_ids_stay_whole_at_any_usual_width(
    fakes: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fakes.answer(
        "ListMemories",
        {
            "memories": [
                {
                    "id": ID,
                    "type": "MEMORY_TYPE_PREFERENCE",
                    "status": "MEMORY_STATUS_SUPERSEDED",
                    "content": SAID,
                    "validFrom": "2026-08-17T00:00:00Z",
                }
            ]
        },
    )
    assert main(["memories", "ana"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    assert {ID, "preference", "superseded", "importance", "2026-08-17", *SAID.split()} <= set(words)
    # Not a column with a word on each line.
    assert len(lines) <= 6
