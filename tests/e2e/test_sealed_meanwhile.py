"""Encryption that is turned on, and off again, while something else is under way (H3).

What was read in clear before the sweep must not come back in clear after it: not in a column, not
in a posting, not as a vector.
"""

from __future__ import annotations

import asyncio

import pytest

from hitherto.v1 import job_pb2
from hitherto_shared.encryption.failures import KeyGone
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from tests.e2e.conftest import Services
from tests.e2e.learning import ended, rows, submit, talk
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.merging import ONE_STYLE, STYLE, STYLES, contents
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, dump, holding, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import memory, merged
from tests.tenants import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

HEARD = "zzheard"
"""Stands in what was said, and in no memory."""

_LEFT = "SELECT 1 FROM users WHERE to_seal > 0"
_SOURCE_VECTORS = "SELECT count(*) FROM memory_source_embeddings"


class Held:
    """Learns what stands before a bar; one call, once `holding`, waits until it is let go."""

    def __init__(self) -> None:
        self.holding = False
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        if self.holding:
            self.asked.set()
            await asyncio.wait_for(self.go_on.wait(), 180)
        if request.consolidation:
            ids = [each.local_id for each in request.memories]
            return ChatAnswer.of(memories=[merged(ONE_STYLE, ids)])
        return ChatAnswer.of(
            new_memories=[
                memory(
                    said.content.partition(" |")[0],
                    [said.local_id],
                    type="preference",
                    tags=[STYLE],
                )
                for said in request.messages
            ]
        )


SERVICE_SETTINGS = ENCRYPTING


@pytest.fixture
def services(modelled: Services) -> Services:
    return modelled


async def turn_on(services: Services, tenant_conninfo: str, *, off_again: bool) -> None:
    """Encrypt, wait until all is sealed, and stop to encrypt or not."""
    assert HEARD in holding(dump(tenant_conninfo), [HEARD])
    await choose(services, encrypt_sensitive=True)
    await eventually(lambda: rows(tenant_conninfo, _LEFT) == [])
    assert holding(dump(tenant_conninfo), [HEARD]) == {}
    if off_again:
        await choose(services, encrypt_sensitive=False)


def nothing_came_back(tenant_conninfo: str) -> None:
    assert holding(dump(tenant_conninfo), [HEARD]) == {}
    assert rows(tenant_conninfo, _SOURCE_VECTORS) == [(0,)]


@pytest.mark.parametrize("off_again", [False, True])
async def test_h3_a_merge_indexes_no_words_that_were_sealed_during_its_call(
    services: Services, off_again: bool
) -> None:
    held = Held()
    services.model.script = held.answer
    (job_id,) = await submit(services, talk(*(f"{said} | {HEARD}" for said in STYLES)))
    assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    held.holding = True
    begun = await ask(services, "Consolidate", tag=STYLE)
    await asyncio.wait_for(held.asked.wait(), 180)
    await turn_on(services, services.conninfo, off_again=off_again)
    held.go_on.set()
    job = await ended(services, begun.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert await contents(services) == [ONE_STYLE]
    nothing_came_back(services.conninfo)


async def test_h3_a_job_begins_anew_where_what_it_read_was_sealed_meanwhile(
    services: Services,
) -> None:
    held = Held()
    held.holding = True
    services.model.script = held.answer
    # Not the user's, whose first message needs the key for a title.
    (job_id,) = await submit(services, talk(("assistant", f"{STYLES[0]} | {HEARD}")))
    await asyncio.wait_for(held.asked.wait(), 180)
    await turn_on(services, services.conninfo, off_again=True)
    held.go_on.set()
    job = await ended(services, job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    # What was spent on the first call is not lost from the bill.
    assert len(services.model.chat_requests) == 2
    assert await contents(services) == [STYLES[0]]
    nothing_came_back(services.conninfo)


async def test_h3_an_export_opens_what_was_sealed_while_it_began(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no key when it asked for one, and there is in the snapshot."""
    opening = UserKeys.open
    turned_on = False

    async def open_late(keys: UserKeys, tenant_id: str, user_id: str) -> UserKey:
        nonlocal turned_on
        if turned_on:
            return await opening(keys, tenant_id, user_id)
        turned_on = True
        await choose(services, encrypt_sensitive=True)
        await submit(services, talk(f"{STYLES[0]} | {HEARD}"))
        raise KeyGone

    monkeypatch.setattr(UserKeys, "open", open_late)
    found = await export(services)
    assert [row["content"] for row in found.of("messages")] == [f"{STYLES[0]} | {HEARD}"]
    assert '"lost":true' not in found.text


async def test_h3_a_key_that_is_made_during_an_erase_does_not_stay(
    services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key-management service that is slow lets a whole erase pass before the key is there."""
    making = UserKeys.make

    async def make_late(keys: UserKeys, tenant_id: str, user_id: str) -> UserKey:
        await erase(services)
        return await making(keys, tenant_id, user_id)

    await choose(services, learning_enabled=True)
    monkeypatch.setattr(UserKeys, "make", make_late)
    refusal = await refusal_of(choose(services, encrypt_sensitive=True))
    assert refusal.reason == "USER_ERASED"
    assert key_files(services.folder, tenant.tenant_id) == []
    monkeypatch.setattr(UserKeys, "make", making)
    # Nor does one that somebody left behind since.
    await keys_of(services.folder).make(tenant.tenant_id, "ana")
    assert await reinstate(services)
    assert key_files(services.folder, tenant.tenant_id) == []
    await choose(services, encrypt_sensitive=True)
    assert len(key_files(services.folder, tenant.tenant_id)) == 1
