"""ImportUser beside everything that happens meanwhile, or over another state (H2).

Whatever an import finds and whatever it answers, nothing about the user stops working.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import grpc
import pytest

from hitherto.v1 import conversation_pb2, job_pb2, privacy_service_pb2_grpc
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.handlers import incoming_export
from hitherto_extraction.restoring.importing import AT_ONCE
from tests.e2e.conftest import Services, Shared
from tests.e2e.curating import change, save, update
from tests.e2e.handing_over import document, taken_in
from tests.e2e.importing import BOUND, Lived, bring, in_two, kept, lived, packed, records
from tests.e2e.learning import ended, learn, memories, replies, rows, submit, talk
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.methods import Refusal, ask, read_refusal
from tests.e2e.sealing import ENCRYPTING, change_profile
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory
from tests.tenants import ISSUED, Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

_IMPORTING = "SELECT 1 FROM users WHERE importing_until > now()"

SERVICE_SETTINGS = dict(ENCRYPTING)


@pytest.fixture(scope="module")
async def clear(shared_modelled: Shared, shared_model: ScriptedModel) -> Lived:
    return await lived(shared_modelled, shared_model, encrypt=False)


def tables_of(person: Lived) -> list[str]:
    return [table for table, _ in person.export.rows]


def split(person: Lived, at: int | str) -> tuple[bytes, bytes]:
    """What was exported, in two: before a line, or before the first record of a table."""
    cut = at if isinstance(at, int) else tables_of(person).index(at)
    lines = person.data.splitlines(keepends=True)
    return b"".join(lines[:cut]), b"".join(lines[cut:])


async def test_what_is_learnt_before_an_import_is_continued_stands_in_nobody_s_way(
    modelled: Services, clear: Lived
) -> None:
    """A crash ends an import; the chat goes on with the same names and sources; then it continues.

    What has a name of its own for the user keeps it: the records of the file refer to that.
    """
    tables = tables_of(clear)
    cut = min(tables.index("entities"), tables.index("documents"))
    assert "conversations" in tables[:cut]
    await refusal_of(bring(modelled, split(clear, cut)[0]))
    place = {"name": "HUẾ", "type": "place"}
    modelled.model.script = replies({"at last": [memory("Ana rests in Huế.", entities=[place])]})
    await learn(modelled, talk("at last", conversation="since"))
    anew = document("thư 1", "Linh in Huế.", source_type="gmail", title="Mới")
    await taken_in(modelled, anew)
    for _ in range(2):
        reply = await bring(modelled, clear.data)
    assert reply.left_out_counts["documents"] == 1
    found = await ask(modelled, "FindEntities", name="Huế")
    (entity,) = found.entities
    mentioned = {
        each.content for each in await memories(modelled) if "huế" in str(each.entities).lower()
    }
    assert "Ana rests in Huế." in mentioned
    told = rows(
        modelled.conninfo,
        "SELECT count(*), bool_and(m.memory_id IS NOT NULL) FROM entity_mentions AS em"
        " LEFT JOIN memories AS m USING (tenant_id, user_id, memory_id)"
        f" WHERE em.entity_id = '{entity.id}'",
    )
    assert told == [(2, True)]
    titles = rows(modelled.conninfo, "SELECT title FROM documents")
    assert titles == [("Mới",)]


async def test_no_message_is_lost_if_a_conversation_goes_on_before_it_is_imported(
    modelled: Services, clear: Lived
) -> None:
    """As above, at the very beginning: its messages have the numbers of those in the file."""
    await refusal_of(bring(modelled, split(clear, "conversations")[0]))
    modelled.model.script = replies({})
    said = talk("at last", "and more", conversation="c2")
    for number, message in enumerate(said.messages):
        message.id = f"since-{number}"
    await learn(modelled, said)
    refusal = await refusal_of(bring(modelled, clear.data))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "USER_NOT_EMPTY"
    assert "went on with a conversation" in refusal.message
    # What was said since is untouched.
    listed = rows(modelled.conninfo, "SELECT message_id FROM messages ORDER BY message_no")
    assert listed == [("since-0",), ("since-1",)]


async def test_a_silent_caller_does_not_keep_the_place_of_an_import(
    modelled: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_export, "PATIENCE_SECONDS", 0.5)
    await save(modelled, "The user drinks trà sen.")
    user = (await export(modelled)).text.splitlines()[0]

    async def silent() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="bo", data=f"{user}\n".encode())
        await asyncio.Event().wait()

    def trickling() -> Iterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="bo", data=f"{user}\n".encode())
        while True:
            time.sleep(0.1)
            yield pb.ImportUserRequest(user_id="bo", data=b"\n")

    def trickle() -> Refusal:
        # gRPC's asyncio client can report INTERNAL in place of the status that it received while
        # it was sending, and this caller never stops sending.
        with grpc.insecure_channel(
            modelled.extraction_address, [("grpc.enable_http_proxy", 0)]
        ) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                privacy_service_pb2_grpc.PrivacyServiceStub(channel).ImportUser(
                    trickling(), metadata=(("authorization", f"Bearer {modelled.token}"),)
                )
            return read_refusal(cast(grpc.Call, caught.value))

    for refusal in (
        await refusal_of(modelled.privacy.ImportUser(silent())),
        await asyncio.to_thread(trickle),
    ):
        assert refusal.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "nothing of the export came for 0.5 seconds" in refusal.message
    # It holds no place: the whole file comes in after it, however slow this machine is.
    monkeypatch.undo()
    assert (await bring(modelled, (await export(modelled)).text.encode(), "bo")).imported_counts


async def test_a_tenant_and_a_person_run_their_share_of_the_imports(
    modelled: Services, tenant: Tenant
) -> None:
    """Half of them are of one tenant, and one of them of one person."""
    again = asyncio.Event()

    async def slow(user: str) -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id=user, data=b"\n")
        await again.wait()

    def begin(user: str, token: str = "") -> Any:
        metadata = [("authorization", f"Bearer {token}")] if token else None
        return modelled.privacy.ImportUser(slow(user), metadata=metadata)

    def ended_of(calls: list[Any]) -> list[Any]:
        return [call for call in calls if call.done()]

    own = ISSUED.token(sub="bo", tenant=tenant.tenant_id, scope="read write")
    mine = [begin("bo", own) for _ in range(3)]
    await eventually(lambda: len(ended_of(mine)) >= 2, seconds=BOUND)
    for call in ended_of(mine):
        assert "with this user's credential are running" in (await refusal_of(call)).message
    others = [begin(f"user {number}") for number in range(AT_ONCE)]
    await eventually(lambda: len(ended_of(others)) > AT_ONCE // 2, seconds=BOUND)
    for call in ended_of(others):
        assert "of this tenant are running" in (await refusal_of(call)).message
    assert len(ended_of(mine)) == 2
    again.set()
    for call in (*mine, *others):
        if call not in ended_of(mine) and call not in ended_of(others):
            await call


@pytest.mark.parametrize(("stored", "last"), [("memories", "memory_sources"), ("users", "users")])
async def test_h2_an_erasure_ends_an_import_that_goes_on(
    modelled: Services, clear: Lived, stored: str, last: str
) -> None:
    """Nothing of it comes back, also if the user is reinstated at once and begins anew."""
    anew = stored == "users"
    # A group is stored once a record of another table comes.
    tables = tables_of(clear)
    half = 1 + max(n for n, table in enumerate(tables) if table == last)
    assert stored in tables[:half]
    erased = asyncio.Event()
    first, rest = split(clear, half)
    importing = in_two(modelled, first, erased, rest)
    await eventually(lambda: rows(modelled.conninfo, f"SELECT 1 FROM {stored}"), seconds=BOUND)
    await erase(modelled)
    await reinstate(modelled)
    if anew:
        await save(modelled, "The user plays the cello.")
    erased.set()
    refusal = await refusal_of(importing)
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "USER_ERASED"
    assert len(rows(modelled.conninfo, "SELECT 1 FROM memories")) == anew


async def test_h2_nobody_else_writes_while_a_user_is_imported(
    modelled: Services, clear: Lived
) -> None:
    """Between two groups, what others write would take the place of records that follow."""
    modelled.model.script = replies({"at last": [memory("Ana rests.")]})
    said = talk("at last", user="ana", conversation="trò chuyện 1")
    said.messages[0].id = "a new one"
    writes: list[Callable[[], Awaitable[Any]]] = [
        lambda: submit(modelled, said),
        lambda: save(modelled, "The user drinks trà sen at five."),
        lambda: change_profile(modelled, summary="Somebody else."),
    ]
    go_on = asyncio.Event()
    first, rest = split(clear, 1 + tables_of(clear).index("users"))
    importing = in_two(modelled, first, go_on, rest)
    await eventually(lambda: rows(modelled.conninfo, _IMPORTING), seconds=BOUND)
    for write in writes:
        refusal = await refusal_of(write())
        assert refusal.code is grpc.StatusCode.ABORTED
        assert (refusal.reason, refusal.retry_after) == ("WRITE_CONFLICT", 1.0)
    go_on.set()
    assert not (await importing).skipped_counts
    assert kept(await export(modelled)) == kept(clear.export)
    for write in writes:
        await write()
    stored = [each.content for each in await memories(modelled)]
    assert len(stored) == len(set(stored))


async def test_h2_a_job_that_is_open_waits_until_an_import_is_continued(
    modelled: Services, clear: Lived
) -> None:
    """Its model's reply comes while the import goes on, and takes the place of no record."""
    first, rest = split(clear, "profiles")
    await refusal_of(bring(modelled, first))
    asked, answered, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(_: ChatRequest) -> ChatAnswer:
        asked.set()
        await asyncio.wait_for(answered.wait(), BOUND)
        summary = {"path": "summary", "value": "Ana rests.", "source_message_ids": ["m1"]}
        return ChatAnswer.of(
            new_memories=[memory("Ana rests.")],
            profile_changes=[{**summary, "quote": "at last"}],
        )

    modelled.model.script = answer
    (job_id,) = await submit(modelled, talk("at last", conversation="since"))
    await asyncio.wait_for(asked.wait(), BOUND)
    importing = in_two(modelled, first, go_on, rest)
    await eventually(lambda: rows(modelled.conninfo, _IMPORTING), seconds=BOUND)
    answered.set()
    over = f"SELECT 1 FROM jobs WHERE job_id = '{job_id}' AND state <> 'running'"
    await eventually(lambda: rows(modelled.conninfo, over), seconds=BOUND)
    assert not rows(modelled.conninfo, "SELECT 1 FROM profiles")
    go_on.set()
    assert "profiles" not in (await importing).skipped_counts
    job = await ended(modelled, job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert "Ana rests." in {held.content for held in await memories(modelled)}
    (brought,) = clear.export.of("profiles")
    ((version, facts),) = rows(modelled.conninfo, "SELECT version, facts FROM profiles")
    assert (version, facts) == (brought["version"] + 1, brought["facts"])


async def test_a_document_that_expires_meanwhile_does_not_end_an_import(
    modelled: Services, clear: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep deletes it before its parts come; everything else is imported."""
    monkeypatch.setattr(incoming_export, "PATIENCE_SECONDS", 600.0)
    lines = records(clear.export)
    (document,) = (line["row"] for line in lines if line["table"] == "documents")
    document["expires_at"] = "2026-01-01T00:00:00+00:00"
    parts = [line["table"] for line in lines if line["row"].get("document_id")]
    assert {"document_chunks", "document_mentions"} <= set(parts)
    # A group is stored once a record of another table comes.
    half = 1 + next(n for n, line in enumerate(lines) if line["table"] == "document_chunks")
    swept = asyncio.Event()
    importing = in_two(modelled, packed(lines[:half]) + b"\n", swept, packed(lines[half:]))
    await eventually(lambda: rows(modelled.conninfo, "SELECT 1 FROM documents"), seconds=BOUND)
    await asyncio.to_thread(change, modelled.conninfo, "DELETE FROM documents")
    swept.set()
    reply = await importing
    for table in ("document_chunks", "document_mentions"):
        assert reply.left_out_counts[table] == parts.count(table)
        assert table not in reply.imported_counts
        assert table not in reply.skipped_counts
        assert not rows(modelled.conninfo, f"SELECT 1 FROM {table}")
    assert reply.imported_counts["memories"] == clear.export.manifest.counts["memories"]
    assert not rows(modelled.conninfo, "SELECT 1 FROM passage_postings WHERE corpus = 'documents'")


Change = Callable[[Services, str, str], Awaitable[Any]]


async def append(services: Services, message_id: str, user: str) -> None:
    said = conversation_pb2.Message(
        id=message_id, role=conversation_pb2.ROLE_USER, content=f"Hello {message_id}."
    )
    await ask(services, "AppendMessages", user_id=user, conversation_id="c1", messages=[said])


async def correct(services: Services, content: str, user: str) -> None:
    (held,) = await memories(services, user=user)
    await update(services, held.id, user=user, content=content)


async def reword_profile(services: Services, summary: str, user: str) -> None:
    await change_profile(services, user=user, summary=summary)


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
    refusal = await refusal_of(bring(services, (await export(services)).text.encode(), "copy"))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "USER_NOT_EMPTY"
    assert "earlier state" in refusal.message
    for number in range(2):
        await change(services, f"here-{number}", "copy")
    history = await ask(services, "GetProfileHistory", user_id="copy", page_size=200)
    assert [event.version for event in history.events] == list(range(len(history.events), 0, -1))


async def test_a_document_that_was_handed_in_again_stays(services: Services) -> None:
    async def hand_in(*paragraphs: str, user: str) -> None:
        content = "\n\n".join(f"{each} " * 300 for each in paragraphs)
        await taken_in(services, document("d1", content, title="Plan"), user=user)

    first = ("tea", "milk")
    for others in (("tea", "coffee", "juice", "wine"), ("cocoa",)):
        for again in (False, True):
            user = f"{others[0]} {again}"
            await hand_in(*first, user=user)
            held = (await export(services, user)).text.encode()
            await hand_in(*others, user=user)
            if again:
                await hand_in(*first, user=user)
            pieces = (
                f"SELECT position, content FROM document_chunks WHERE user_id = '{user}' ORDER BY 1"
            )
            before = rows(services.conninfo, pieces)
            await bring(services, held, user)
            assert rows(services.conninfo, pieces) == before, user
            await hand_in("water", user=user)


async def test_a_profile_begun_before_an_import_is_continued_stays(services: Services) -> None:
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
