"""What is told beside memories: it moves with an export, and goes where words are sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import APPROVE, forget, restore, review
from tests.e2e.importing import bring
from tests.e2e.learning import ended, learn, rows, talk
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.reconciling import NEW_HOME, OLD_HOME, doubting, script, settled, with_words
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.test_doubtful_memories import COMMUTE, moving
from tests.scripted_model import ChatRequest
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

MAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
SEPTEMBER = datetime(2026, 9, 3, 9, tzinfo=UTC)
REASON = "zzmoved to Kassel"


SERVICE_SETTINGS = {"reconcile": True, **ENCRYPTING}
"""With reconciliation, and keys to encrypt with."""


async def move(
    services: Services,
    learning: Callable[[ChatRequest], Mapping[str, Any]] = moving,
) -> None:
    """Somebody moves, which makes the commute uncertain."""
    services.model.script = script(doubting(COMMUTE, NEW_HOME, REASON), learning)
    await learn(services, talk(OLD_HOME, COMMUTE, conversation="c1", at=MAY))
    await learn(services, talk(NEW_HOME, conversation="c2", at=SEPTEMBER))
    await settled(services)


async def test_h2_doubt_and_evidence_move_with_an_export(modelled: Services) -> None:
    await move(modelled)
    before = {words: await with_words(modelled, words) for words in (COMMUTE, NEW_HOME)}
    data = (await export(modelled)).text.encode()
    await erase(modelled)
    await reinstate(modelled)
    await bring(modelled, data)
    for words, held in before.items():
        now = await with_words(modelled, words)
        assert (now.doubt, list(now.evidence)) == (held.doubt, list(held.evidence))
    assert before[COMMUTE].doubt.reason == REASON
    assert before[NEW_HOME].evidence[0].quote == NEW_HOME


async def test_h3_the_doubt_of_a_sealed_memory_returns_with_its_cause(modelled: Services) -> None:
    def learning(request: ChatRequest) -> dict[str, Any]:
        learnt = moving(request)
        for each in learnt["new_memories"]:
            each["type"] = "personal" if each["content"] == COMMUTE else each["type"]
        return learnt

    await choose(modelled, mask=["encrypt_sensitive"], encrypt_sensitive=True)
    await move(modelled, learning)
    assert (await with_words(modelled, COMMUTE)).sensitive
    cause = (await with_words(modelled, NEW_HOME)).id
    await forget(modelled, cause)
    assert not (await with_words(modelled, COMMUTE)).HasField("doubt")
    await restore(modelled, cause)
    assert (await with_words(modelled, COMMUTE)).doubt.because_memory_id == cause


async def test_h3_quotes_and_reasons_go_where_everything_is_sealed(modelled: Services) -> None:
    await move(modelled)

    def left() -> list[Any]:
        return rows(
            modelled.conninfo,
            "SELECT 1 FROM memory_sources WHERE quote IS NOT NULL"
            " UNION ALL SELECT 1 FROM memories WHERE doubt ->> 'reason' <> ''"
            " UNION ALL SELECT 1 FROM memory_versions WHERE doubt ->> 'reason' <> ''"
            " UNION ALL SELECT 1 FROM history WHERE after::text LIKE '%zzmoved%'"
            " OR before::text LIKE '%zzmoved%' OR reason LIKE '%zzmoved%'",
        )

    assert left()
    await choose(modelled, mask=["encrypt_sensitive"], encrypt_sensitive=True)
    await eventually(lambda: not left(), seconds=60)
    # It is as uncertain as before; only the words are gone.
    doubt = (await with_words(modelled, COMMUTE)).doubt
    assert (bool(doubt.because_memory_id), doubt.reason) == (True, "")


async def test_c3_a_doubt_outlives_its_deleted_cause_without_the_reason(modelled: Services) -> None:
    await move(modelled)
    cause = (await with_words(modelled, NEW_HOME)).id
    commute = await with_words(modelled, COMMUTE)
    await choose(modelled, mask=["retention_days"], retention_days=30)
    for table, column, only in (
        ("memories", "created_at", f"WHERE memory_id = '{cause}'"),
        ("history", "recorded_at", f"WHERE memory_id = '{cause}'"),
        ("conversations", "updated_at", ""),
    ):
        aged = f"UPDATE {table} SET {column} = now() - interval '40 days' {only} RETURNING 1"
        assert rows(modelled.conninfo, aged)
    begun = await ask(modelled, "RunRetention", user_id="")
    assert (await ended(modelled, begun.job.id)).result.counts["memories"] == 1
    doubt = (await with_words(modelled, COMMUTE)).doubt
    assert (doubt.because_memory_id, doubt.reason) == (cause, "")
    assert not rows(
        modelled.conninfo,
        "SELECT 1 FROM memory_versions WHERE doubt ->> 'reason' <> ''"
        " UNION ALL SELECT 1 FROM history WHERE after::text LIKE '%zzmoved%'"
        " OR before::text LIKE '%zzmoved%' OR reason LIKE '%zzmoved%'",
    )
    # Nobody has said that it holds: whatever happens to it later, it is uncertain.
    await forget(modelled, commute.id)
    await restore(modelled, commute.id)
    assert (await with_words(modelled, COMMUTE)).doubt.because_memory_id == cause
    await review(modelled, commute.id, APPROVE)
    assert not (await with_words(modelled, COMMUTE)).HasField("doubt")
