"""Actions that wait for the user, and what SessionService refuses: requirements F3 and B4.

Time is moved in the database, by its clock, and never waited for.
"""

from __future__ import annotations

import asyncio
import re

import grpc
import psycopg
import pytest

from hitherto.v1 import conversation_pb2, retrieval_service_pb2, session_pb2
from hitherto.v1 import session_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.learning import rows
from tests.e2e.methods import METHODS, read_refusal, refused
from tests.e2e.sessions import (
    COMPLETED,
    CONFIRMED,
    EXPIRED,
    PENDING,
    REJECTED,
    TALK,
    add,
    free,
    items,
    let_pass,
    plain,
    read,
    refusal_of,
    resolve,
    stub,
    update,
)


class TestActions:
    async def test_f3_an_action_is_added_and_listed(self, services: Services) -> None:
        first = await add(services)
        assert re.fullmatch(r"act_[0-9a-f]{8}", first.id)
        assert (first.type, first.status) == ("send_email", PENDING)
        assert plain(first.params) == {"to": "linh@example.com", "subject": "Trà sen 🍵"}
        assert first.description == "Gửi thư cho Linh?"
        assert not first.HasField("result")
        second = await add(services, "đặt_lịch")
        elsewhere = await add(services, session="s2")
        # Without a session it begins one.
        request = pb.AddPendingActionRequest(user_id="ana", type="call")
        begun = await stub(services).AddPendingAction(request)
        held = await read(services, begun.session_id, token=begun.consistency_token)
        assert list(held.pending_actions) == [begun.pending_action]
        found = (await read(services)).pending_actions
        assert list(found) == [first, second], "those of the session, oldest first"
        assert list((await read(services, "s2")).pending_actions) == [elsewhere]

    @pytest.mark.parametrize("steps", [(CONFIRMED,), (COMPLETED,), (CONFIRMED, REJECTED)])
    async def test_f3_every_transition_happens_once(
        self, services: Services, steps: tuple[session_pb2.PendingActionState.ValueType, ...]
    ) -> None:
        action = await add(services)
        for status in steps:
            assert (await resolve(services, action.id, status)).status == status
        final = steps[-1] != CONFIRMED
        assert [a.status for a in (await read(services)).pending_actions] == (
            [] if final else [CONFIRMED]
        )
        for status in (CONFIRMED, COMPLETED, REJECTED):
            if not final and status != CONFIRMED:
                continue
            again = await refusal_of(resolve(services, action.id, status))
            assert again.code is grpc.StatusCode.FAILED_PRECONDITION
            assert again.reason == "PENDING_ACTION_CONFLICT"
            stands = session_pb2.PendingActionState.Name(steps[-1])
            assert again.metadata == {
                "pending_action_id": action.id,
                "status": stands.removeprefix("PENDING_ACTION_STATE_"),
            }

    async def test_f3_a_result_stays_until_another_one_is_reported(
        self, services: Services
    ) -> None:
        action = await add(services)
        begun = await resolve(services, action.id, CONFIRMED, result={"ticket": "HUẾ-7 🎫"})
        assert plain(begun.result) == {"ticket": "HUẾ-7 🎫"}
        ended = await resolve(services, action.id, COMPLETED)
        assert plain(ended.result) == {"ticket": "HUẾ-7 🎫"}
        other = await add(services)
        empty = await resolve(services, other.id, COMPLETED, result={})
        assert empty.HasField("result")
        assert plain(empty.result) == {}
        # What is decided waits for nothing.
        assert empty.expires_at == other.expires_at

    async def test_f3_of_two_who_decide_at_once_one_wins(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """Both are held at the action's row, so that they do meet."""
        waiting = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        twice = (CONFIRMED, CONFIRMED)
        for pair, key in (((COMPLETED, REJECTED), ""), (twice, ""), (twice, "k")):
            action = await add(services)
            async with await psycopg.AsyncConnection.connect(superuser_conninfo) as holder:
                await holder.execute("SELECT FROM pending_actions FOR UPDATE")
                both = [
                    asyncio.ensure_future(resolve(services, action.id, one, key=key))
                    for one in pair
                ]
                async with asyncio.timeout(180):
                    while len(await asyncio.to_thread(rows, superuser_conninfo, waiting)) < 2:  # noqa: ASYNC110 - the server is what changes
                        await asyncio.sleep(0.01)
                await holder.rollback()
            if key:
                # One decision, sent twice.
                assert [one.status for one in await asyncio.gather(*both)] == [*twice]
                continue
            tried = await asyncio.gather(*both, return_exceptions=True)
            (won,) = [one for one in tried if isinstance(one, session_pb2.PendingAction)]
            (lost,) = [read_refusal(one) for one in tried if isinstance(one, grpc.aio.AioRpcError)]
            assert lost.reason == "PENDING_ACTION_CONFLICT"
            assert session_pb2.PendingActionState.Name(won.status).endswith(lost.metadata["status"])

    async def test_f3_another_session_user_or_id_is_not_found(self, services: Services) -> None:
        """Row 60: what is somebody else's is not there."""
        action = await add(services)
        for going in (
            resolve(services, action.id, CONFIRMED, session="s2"),
            resolve(services, action.id, CONFIRMED, user="bo"),
            resolve(services, "act_00000000", CONFIRMED),
            resolve(services, "no id of ours", CONFIRMED),
        ):
            refusal = await refusal_of(going)
            assert refusal.code is grpc.StatusCode.NOT_FOUND
            assert refusal.reason == "PENDING_ACTION_NOT_FOUND"
        assert (await resolve(services, action.id, CONFIRMED, session="s1")).status == CONFIRMED

    async def test_f3_an_action_waits_a_day_and_another_one_once_it_is_confirmed(
        self, services: Services
    ) -> None:
        action, other = await add(services), await add(services, session="s2")
        waits = action.expires_at.ToDatetime() - action.created_at.ToDatetime()
        assert round(waits.total_seconds()) == 86_400
        let_pass(services.conninfo, pending_actions=86_000)
        confirmed = await resolve(services, action.id, CONFIRMED)
        assert [a.id for a in (await read(services)).pending_actions] == [action.id]
        assert confirmed.created_at == action.created_at
        # Then it expires.
        for gone, passed in ((other, 401), (action, 86_001)):
            session = "s2" if gone is other else "s1"
            let_pass(services.conninfo, pending_actions=passed)
            assert not (await read(services, session)).pending_actions
            for status in (CONFIRMED, COMPLETED, REJECTED):
                late = await refusal_of(resolve(services, gone.id, status, session=session))
                assert late.code is grpc.StatusCode.FAILED_PRECONDITION
                assert late.reason == "PENDING_ACTION_CONFLICT"
                assert late.metadata == {"pending_action_id": gone.id, "status": "EXPIRED"}


class TestIdempotency:
    async def test_b4_the_first_outcome_is_told_again(self, services: Services) -> None:
        sessions = stub(services)
        request = pb.AddPendingActionRequest(user_id="ana", type="call", idempotency_key="k")
        first, again = [await sessions.AddPendingAction(request) for _ in range(2)]
        assert (first.pending_action, first.session_id) == (again.pending_action, again.session_id)
        assert rows(services.conninfo, "SELECT count(*) FROM hitherto.pending_actions") == [(1,)]

        one = await update(services, TALK, session="", key="k")
        other = await update(services, TALK, session="", key="k")
        assert one.session_id == other.session_id

        decided = first.pending_action.id
        confirmed = await resolve(services, decided, CONFIRMED, key="c")
        assert await resolve(services, decided, CONFIRMED, key="c") == confirmed
        await resolve(services, decided, COMPLETED)
        late = await resolve(services, decided, CONFIRMED, key="c")
        assert late.status == COMPLETED, "the action as it is now"

    async def test_b4_another_body_is_refused_and_a_refused_call_takes_no_key(
        self, services: Services
    ) -> None:
        await update(services, {"a": 1.0}, key="k")
        refusal = await refusal_of(update(services, {"a": 2.0}, key="k"))
        assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"
        assert plain((await read(services)).context) == {"a": 1.0}
        action = await add(services)
        await resolve(services, action.id, CONFIRMED)
        await refusal_of(resolve(services, action.id, CONFIRMED, key="c"))
        assert (await resolve(services, action.id, COMPLETED, key="c")).status == COMPLETED


class TestBadInput:
    async def test_row_48_all_violations_come_at_once(self, services: Services) -> None:
        too_big = free({"k": "x" * 65_600})
        update_request = pb.UpdateSessionRequest(
            session_id="x" * 257,
            context=too_big,
            recent_items=[
                conversation_pb2.ContextItem(relevance=0.5),
                conversation_pb2.ContextItem(id="a\x00", relevance=-1),
                conversation_pb2.ContextItem(id="b", relevance=float("nan")),
            ],
            idempotency_key="k" * 129,
        )
        add_request = pb.AddPendingActionRequest(
            session_id="s\n", params=too_big, description="ữ" * 6_000, idempotency_key="k" * 129
        )
        decision = pb.ResolvePendingActionRequest(session_id="\x7f", result=too_big)
        session = {"user_id", "session_id"}
        items = "recent_items[0].id recent_items[1].id recent_items[1].relevance"
        for method, request, fields in (
            (
                "SessionService/UpdateSession",
                update_request,
                f"context {items} recent_items[2].relevance idempotency_key",
            ),
            (
                "SessionService/AddPendingAction",
                add_request,
                "type params description idempotency_key",
            ),
            ("SessionService/ResolvePendingAction", decision, "pending_action_id status result"),
            ("RetrievalService/GetSession", retrieval_service_pb2.GetSessionRequest(), ""),
        ):
            refusal = await refused(services, METHODS[method], request)
            assert set(refusal.fields) == session | set(fields.split()), method

    async def test_f3_only_a_decision_can_be_made(self, services: Services) -> None:
        action = await add(services)
        for status in (PENDING, EXPIRED):
            refusal = await refusal_of(resolve(services, action.id, status))
            assert list(refusal.fields) == ["status"]
        assert [a.status for a in (await read(services)).pending_actions] == [PENDING]

    async def test_f3_200_recent_items_and_no_more(self, services: Services) -> None:
        many = items(*(f"m{n}" for n in range(200)))
        assert len((await update(services, recent=many)).recent_items) == 200
        refusal = await refusal_of(update(services, recent=[*many, *items("one more")]))
        assert list(refusal.fields) == ["recent_items"]
        twice = [*items("m1"), conversation_pb2.ContextItem(id="m1", relevance=0.9)]
        (kept,) = (await update(services, recent=twice)).recent_items
        assert (kept.id, kept.relevance) == ("m1", 0.5)
