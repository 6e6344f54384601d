"""Contexts and recent items through both services: requirement F3.

Time is moved in the database, by its clock, and never waited for.
"""

from __future__ import annotations

from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import retrieval_service_pb2
from hitherto.v1 import session_service_pb2 as pb
from hitherto_extraction.intake import Intake
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.sessions import bounded
from hitherto_extraction.storage import sessions as storage
from hitherto_extraction.sweeps import Sweeps
from hitherto_shared.database.pool import Database
from hitherto_shared.text.graphemes import beginning
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import learn, rows, talk
from tests.e2e.methods import ask
from tests.e2e.sessions import (
    CONFIRMED,
    TALK,
    add,
    items,
    let_pass,
    lives_for,
    plain,
    read,
    refusal_of,
    resolve,
    stub,
    update,
)


class TestContext:
    async def test_f3_what_is_stored_is_read(self, services: Services) -> None:
        """Any script, any free JSON; the token of the write is good for the read."""
        written = await update(services, TALK, recent=items("m1", "m2"))
        assert plain(written.context) == TALK
        assert [item.id for item in written.recent_items] == ["m1", "m2"]
        found = await read(services, token=written.consistency_token)
        assert plain(found.context) == TALK
        assert [(i.id, i.relevance) for i in found.recent_items] == [("m1", 0.5), ("m2", 0.5)]
        assert (list(found.pending_actions), found.reason) == ([], "")
        # The context is the session's and recent items are the user's.
        other = await read(services, "s2")
        assert not other.HasField("context")
        assert other.recent_items == found.recent_items
        assert await read(services, user="bo") == retrieval_service_pb2.GetSessionResponse()
        # A session without a name gets one.
        first, second = await update(services, TALK, session=""), await update(services, session="")
        assert first.session_id
        assert first.session_id != second.session_id
        assert plain((await read(services, first.session_id)).context) == TALK

    async def test_f3_an_update_replaces_and_an_unset_field_changes_nothing(
        self, services: Services
    ) -> None:
        await update(services, {"a": 1.0, "b": 2.0}, recent=items("m1"))
        assert plain((await update(services, {"a": 3.0})).context) == {"a": 3.0}
        unset = await update(services)
        assert (plain(unset.context), [i.id for i in unset.recent_items]) == ({"a": 3.0}, ["m1"])
        await update(services, recent=items("m2"))
        found = await read(services)
        assert (plain(found.context), [i.id for i in found.recent_items]) == ({"a": 3.0}, ["m2"])
        assert plain((await update(services, {})).context) == {}
        assert not (await read(services)).HasField("context")

    async def test_f3_known_keys_are_cut_to_size(self, services: Services) -> None:
        given = {
            "last_message": "x" * 900,
            "last_response": "ữ" * 499 + "👩‍🍳" + "z" * 90,
            "entities_mentioned": [f"e{n}" for n in range(9)],
            "context_used_count": 12.0,
        }
        kept = plain((await update(services, given)).context)
        assert kept == {
            **given,
            "last_response": "ữ" * 499,
            "entities_mentioned": ["e0", "e1", "e2", "e3", "e4"],
        }
        assert plain((await read(services)).context) == kept


class TestTimeToLive:
    async def test_f3_each_update_renews_it(self, services: Services) -> None:
        """30 and 15 minutes; also with a call that only says that the session goes on."""
        await update(services, TALK, recent=items("m1"))
        assert lives_for(services.conninfo, "session_contexts") == 1_800
        assert lives_for(services.conninfo, "recent_items") == 900
        for again in (TALK, None):
            let_pass(services.conninfo, session_contexts=1_790, recent_items=890)
            await update(services, again, recent=items("m1"))
            assert lives_for(services.conninfo, "session_contexts") == 1_800
            assert lives_for(services.conninfo, "recent_items") == 900

    async def test_f3_what_is_over_reads_as_absent(self, services: Services) -> None:
        await update(services, TALK, recent=items("m1"))
        let_pass(services.conninfo, recent_items=901)
        found = await read(services)
        assert (plain(found.context), list(found.recent_items)) == (TALK, [])
        let_pass(services.conninfo, session_contexts=1_801)
        assert await read(services) == retrieval_service_pb2.GetSessionResponse()
        # It does not come back without new content.
        late = await update(services)
        assert not late.HasField("context")
        assert not late.recent_items
        assert not (await read(services)).HasField("context")
        assert plain((await update(services, {"new": True})).context) == {"new": True}

    async def test_f3_the_times_are_settings(self, start_services: StartServices) -> None:
        async with start_services(ttl_session=60, ttl_recent=5) as services:
            await update(services, TALK, recent=items("m1"))
        assert lives_for(services.conninfo, "session_contexts") == 60
        assert lives_for(services.conninfo, "recent_items") == 5

    async def test_f3_what_is_over_is_deleted_and_nothing_else(
        self,
        services: Services,
        conninfo: str,
        superuser_conninfo: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """In bounded steps, on the role of upkeep; actions stay for a week past their end."""
        for n in range(3):
            await update(services, TALK, session=f"over{n}")
        over = await add(services)
        await update(services, TALK, user="bo", recent=items("m1"))
        let_pass(superuser_conninfo, session_contexts=1_801, recent_items=901)
        let_pass(superuser_conninfo, pending_actions=(7 + 1) * 86_400 - 60)
        await update(services, TALK, user="minh", recent=items("m2"))
        young = await add(services, user="minh")
        monkeypatch.setattr(storage, "_SWEEP", 2)
        maintenance = Database(conninfo, "hitherto_maintenance", application="test", max_size=1)
        await maintenance.open()
        try:
            settings: dict[str, Any] = {"extract_every": 10, "debounce_seconds": 0.0}
            intake = Intake(maintenance, JobQueue(3), memory_enabled=True, **settings)
            sweeps = Sweeps(maintenance, intake, maintenance, idle_minutes=10)
            for _, duty in sweeps.at_intervals(idle=False):
                await duty()
            kept = "SELECT user_id FROM hitherto."
            assert rows(superuser_conninfo, kept + "session_contexts") == [("minh",)]
            assert rows(superuser_conninfo, kept + "recent_items") == [("minh",)]
            assert len(rows(superuser_conninfo, kept + "pending_actions")) == 2
            let_pass(superuser_conninfo, pending_actions=61)
            await sweeps.drop_sessions()
        finally:
            await maintenance.close()
        ids = rows(superuser_conninfo, "SELECT action_id FROM hitherto.pending_actions")
        assert ids == [(young.id,)]
        gone = await refusal_of(resolve(services, over.id, CONFIRMED))
        assert gone.reason == "PENDING_ACTION_NOT_FOUND"


class TestWhoseMemoryIsOff:
    """H1: nothing is stored and nothing read; who was erased stays so (row 56)."""

    async def _nothing_goes(
        self, services: Services, action: str, reason: str, conninfo: str
    ) -> None:
        before = _all_rows(conninfo)
        for going in (
            update(services, {"new": True}, recent=items("m9")),
            stub(services).AddPendingAction(
                pb.AddPendingActionRequest(user_id="ana", session_id="s1", type="call")
            ),
            resolve(services, action, CONFIRMED),
        ):
            refusal = await refusal_of(going)
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert (refusal.reason, refusal.metadata) == (reason, {"user_id": "ana"})
        assert _all_rows(conninfo) == before

    async def test_of_one_user(self, services: Services) -> None:
        await update(services, TALK, recent=items("m1"))
        action = (await add(services)).id
        for setting, reason, read_as in (
            ("memory_enabled = false", "MEMORY_DISABLED", "MEMORY_DISABLED"),
            ("memory_enabled = true, erased_at = now()", "USER_ERASED", ""),
        ):
            _set(services.conninfo, setting)
            await self._nothing_goes(services, action, reason, services.conninfo)
            told = retrieval_service_pb2.GetSessionResponse(reason=read_as)
            assert await read(services) == told
            await update(services, TALK, user="bo")

    async def test_of_the_installation(self, start_services: StartServices) -> None:
        async with start_services(memory_enabled=False) as services:
            await self._nothing_goes(services, "act_00000000", "MEMORY_DISABLED", services.conninfo)
            assert (await read(services)).reason == "MEMORY_DISABLED"

    async def test_learning_off_does_not_touch_it(self, services: Services) -> None:
        """Working memory is no learning."""
        await update(services, TALK)
        _set(services.conninfo, "learning_enabled = false")
        assert plain((await update(services, {"new": True})).context) == {"new": True}


def _set(conninfo: str, what: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"UPDATE hitherto.users SET {what} WHERE user_id = 'ana'".encode())


def _all_rows(conninfo: str) -> list[Any]:
    return [
        rows(conninfo, f"SELECT t::text FROM hitherto.{table} AS t ORDER BY 1")
        for table in ("session_contexts", "recent_items", "pending_actions")
    ]


async def test_f5_preferences_are_those_of_this_moment(services: Services) -> None:
    """They belong to the user and stand in every session, also one nobody has heard of."""
    assert not (await read(services)).preferences
    await learn(services, talk(("user", "How?"), ("assistant", "x" * 400), conversation="c1"))
    edit = memory.ResponseEdit(original="x" * 400, edited="x" * 100)
    which = {"conversation_id": "c1", "message_id": "c1-2", "edit": edit}
    rated = await ask(services, "RecordFeedback", **which)
    assert rated.preferences
    found = await read(services, "unheard of", token=rated.consistency_token)
    assert {(p.type, p.key) for p in found.preferences} >= {
        (p.type, p.key) for p in rated.preferences
    }
    assert not found.HasField("context")


async def test_f7_a_deleted_conversation_takes_its_session_along(services: Services) -> None:
    """Also a retry of what was added in it finds nothing."""
    await learn(services, talk("I live in Lisbon.", conversation="gone"))
    await update(services, TALK, session="gone", recent=items("m1", "gone", "m2"))
    await update(services, {"kept": True}, session="kept")
    request = pb.AddPendingActionRequest(
        user_id="ana", session_id="gone", type="call", idempotency_key="k"
    )
    added = await stub(services).AddPendingAction(request)
    kept = await add(services, session="kept")
    await ask(services, "DeleteConversation", conversation_id="gone")
    found = await read(services, "gone")
    assert not found.HasField("context")
    assert not found.pending_actions
    assert [item.id for item in found.recent_items] == ["m1", "m2"]
    other = await read(services, "kept")
    assert plain(other.context) == {"kept": True}
    assert [action.id for action in other.pending_actions] == [kept.id]
    assert len(rows(services.conninfo, "SELECT 1 FROM hitherto.pending_actions")) == 1
    late = await refusal_of(stub(services).AddPendingAction(request))
    assert late.reason == "PENDING_ACTION_NOT_FOUND"
    assert late.metadata == {"pending_action_id": added.pending_action.id}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("abcdef", "abcd"),
        ("", ""),
        ("abc👩‍🍳", "abc"),  # a person, a joiner and a pan are one sign
        ("abc👍🏽d", "abc"),
        ("abce\u0302\u0301\u0303", "abc"),
        ("abc🇻🇳", "abc"),
        ("abc🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "abc"),  # of England
        ("🇻🇳🇻🇳🇻🇳", "🇻🇳🇻🇳"),
        ("\u0301" * 9, "\u0301" * 4),
    ],
)
def test_f3_a_text_is_cut_between_signs(text: str, kept: str) -> None:
    assert beginning(text, 4) == kept


def test_f3_known_keys_of_another_kind_are_free_json() -> None:
    given = {"last_response": 5.0, "entities_mentioned": {"a": 1.0}, "other": "x" * 900}
    assert bounded(given) == given
