"""An export of a user who is held here in an earlier or later state (H2).

Whatever an import finds and whatever it answers, nothing about the user stops working.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc
import pytest

from hitherto.v1 import conversation_pb2, document_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import save, update
from tests.e2e.learning import ended, memories, rows
from tests.e2e.leaving import export
from tests.e2e.methods import ask
from tests.e2e.sealing import change_profile
from tests.e2e.sessions import refusal_of
from tests.e2e.test_import_user import bring


async def append(services: Services, message_id: str, user: str) -> None:
    said = conversation_pb2.Message(
        id=message_id, role=conversation_pb2.ROLE_USER, content=f"Hello {message_id}."
    )
    await ask(services, "AppendMessages", user_id=user, conversation_id="c1", messages=[said])


async def hand_in(services: Services, *paragraphs: str, user: str) -> None:
    document = document_pb2.Document(
        source_type="gdrive",
        source_id="d1",
        title="Plan",
        content="\n\n".join(f"{each} " * 300 for each in paragraphs),
    )
    reply = await ask(services, "IngestDocuments", user_id=user, documents=[document])
    await ended(services, reply.job.id)


async def correct(services: Services, content: str, user: str) -> None:
    (held,) = await memories(services, user=user)
    await update(services, held.id, user=user, content=content)


async def reword_profile(services: Services, summary: str, user: str) -> None:
    await change_profile(services, user=user, summary=summary)


Change = Callable[[Services, str, str], Awaitable[None]]


@pytest.mark.parametrize("change", [append, correct, reword_profile])
async def test_a_later_export_of_the_same_user_is_refused_and_spoils_nothing(
    services: Services, change: Change
) -> None:
    """Its later versions and messages have the numbers of those that the user here makes next."""
    await append(services, "first", "ana")
    await save(services, "Ana drinks tea.")
    await reword_profile(services, "A sailor.", "ana")
    await bring(services, (await export(services)).text.encode(), "copy")
    for number in range(3):
        await change(services, f"later-{number}", "ana")
    later = (await export(services)).text.encode()
    refusal = await refusal_of(bring(services, later, "copy"))
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "USER_NOT_EMPTY",
    )
    assert "earlier state" in refusal.message
    for number in range(2):
        await change(services, f"here-{number}", "copy")
    history = await ask(services, "GetProfileHistory", user_id="copy", page_size=200)
    assert [event.version for event in history.events] == list(range(len(history.events), 0, -1))


@pytest.mark.parametrize("others", [("tea", "coffee", "juice", "wine"), ("cocoa",)])
@pytest.mark.parametrize("again", [False, True])
async def test_a_document_that_was_handed_in_again_stays(
    services: Services, tenant_conninfo: str, others: tuple[str, ...], again: bool
) -> None:
    first = ("tea", "milk")
    await hand_in(services, *first, user="ana")
    held = (await export(services)).text.encode()
    await hand_in(services, *others, user="ana")
    if again:
        await hand_in(services, *first, user="ana")
    pieces = "SELECT position, content FROM document_chunks WHERE user_id = 'ana' ORDER BY 1"
    before = rows(tenant_conninfo, pieces)
    await bring(services, held, "ana")
    assert rows(tenant_conninfo, pieces) == before
    await hand_in(services, "water", user="ana")


async def test_a_profile_begun_before_an_import_is_continued_stays(
    services: Services,
) -> None:
    for number in range(3):
        await reword_profile(services, f"Elsewhere {number}.", "bo")
    held = await export(services, "bo")
    lines = held.text.encode().splitlines(keepends=True)
    cut = [table for table, _ in held.rows].index("profiles")
    await refusal_of(bring(services, b"".join(lines[:cut])))
    await reword_profile(services, "Here 0.", "ana")
    await bring(services, b"".join(lines))
    await reword_profile(services, "Here 1.", "ana")
    history = await ask(services, "GetProfileHistory", user_id="ana", page_size=200)
    assert [event.version for event in history.events] == [2, 1]
    assert history.events[0].after["summary"] == "Here 1."
