"""Exports that a test imports: of somebody who has left something in every table, and changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import document_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.restoring.tables import COMPUTED, IMPORTED
from tests.e2e.conftest import Services, Shared
from tests.e2e.curating import checks, forget, save, update
from tests.e2e.handing_over import taken_in
from tests.e2e.learning import learn, replies, rows, shown, talk
from tests.e2e.leaving import Export, export
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import PERSONAL, change_profile
from tests.e2e.sessions import add, items
from tests.e2e.sessions import update as update_session
from tests.scripted_model import ChatRequest, ScriptedModel, canary_script
from tests.scripted_model.answers import memory
from tests.tenants import Tenant
from tests.waiting import eventually

FIRST = "Mình sống ở Huế với bà nội, làm ở 東京 và thích 🍵."
SECOND = "Mình đã chuyển tới Đà Nẵng. انتقلت إلى المدينة"
SECRET = "The user is treated for quxdisease."
BOUND = 120.0


def first(request: ChatRequest) -> dict[str, Any]:
    source = request.messages[0].local_id
    return {
        "new_memories": [
            memory(
                "The user lives in Huế.",
                [source],
                tags=["home"],
                keywords=["nhà", "家", "بيت"],
                entities=[{"name": "Huế", "type": "place"}, {"name": "東京", "type": "place"}],
                context={"mood": "vui 🍵"},
            ),
            memory("The user wants to learn the đàn tranh.", [source], type="goal"),
            memory(SECRET, [source], type="personal", tags=["health"]),
        ],
        "profile": {
            "summary": "Sống ở Huế.",
            "current_projects": ["東京 office"],
            "facts": {"personal": {"location": "Huế"}},
        },
        "conversation_summary": {
            "title": "Nhà ở Huế",
            "summary": "Nói về nhà ở Huế và 東京.",
            "key_topics": ["nhà"],
            "outcome": "ongoing",
            "followup_suggestions": ["Bà nội thế nào?"],
        },
    }


def second(request: ChatRequest) -> dict[str, Any]:
    source = request.messages[0].local_id
    return {
        "new_memories": [memory("The user lives in Đà Nẵng.", [source], tags=["home"])],
        "contradicted_memories": [
            {"id": shown(request, "lives in Huế"), "by": 0, "source_message_ids": [source]}
        ],
        "achieved_goals": [{"id": shown(request, "đàn tranh"), "source_message_ids": [source]}],
    }


async def live(services: Services, model: ScriptedModel) -> None:
    """Leave something in every table that is imported."""
    model.script = replies({"bà nội": first, "chuyển tới": second})
    await choose(services, retention_days=400, time_zone="Asia/Ho_Chi_Minh")
    spoken = talk(FIRST, ("assistant", "Nghe hay quá! 👩‍🍳"), conversation="trò chuyện 1")
    spoken.messages[0].name = "Thảo"
    spoken.messages[0].metadata.update({"kênh": "家", "số": 0.1})
    spoken.messages[1].context_item_ids.append("m1")
    await learn(services, spoken)
    await learn(services, talk(SECOND, conversation="c2"))
    saved = await save(
        services,
        "The user drinks trà sen.",
        tags=["tea"],
        metadata={"from": "phone 📱", "n": [1, {"deep": None}]},
    )
    await update(services, saved.memory.id, content="The user drinks trà sen at five.")
    gone = await save(services, "The user plays the organ.")
    await forget(services, gone.memory.id, reason="wrong")
    await save(services, "The user owes quxdebt.", type=PERSONAL, detail="quxdetail")
    await change_profile(services, summary="Sống ở Đà Nẵng.", facts={"health": {"a": "quxfact"}})
    await checks(services)
    await update_session(services, {"plan": {"bước": 1.0}}, recent=items("m1"))
    await add(services)
    mail = document_pb2.Document(
        source_type="gmail",
        source_id="thư 1",
        title="Trà sen",
        content="Linh gửi trà sen tới Đà Nẵng.\n\n" * 40,
        author="linh@example.com",
        expires_at=Timestamp(seconds=4_000_000_000),
    )
    await taken_in(services, mail)
    told = {"conversation_id": "trò chuyện 1", "message_id": "trò chuyện 1-2"}
    await ask(services, "RecordFeedback", rating=5, **told)
    await ask(services, "SearchMemories", query="Where does the user live?")


def records(found: Export) -> list[dict[str, Any]]:
    """The lines of an export, to be changed."""
    return [json.loads(line) for line in found.text.splitlines()]


def packed(lines: Iterable[Any]) -> bytes:
    """Records, or lines as they stand, as they are sent."""
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()


async def bring(
    services: Services,
    data: bytes,
    user: str = "ana",
    *,
    piece: int = 10_000,
    key: str = "",
    token: str = "",
) -> pb.ImportUserResponse:
    """Import `data` in pieces of this size."""

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        for start in range(0, max(len(data), 1), piece):
            yield pb.ImportUserRequest(
                user_id=user, data=data[start : start + piece], idempotency_key=key
            )

    metadata = [("authorization", f"Bearer {token}")] if token else None
    return await services.privacy.ImportUser(pieces(), metadata=metadata)


def in_two(
    services: Services, first: bytes, go_on: asyncio.Event, rest: bytes
) -> asyncio.Task[pb.ImportUserResponse]:
    """An import for Ana that waits in the middle."""

    async def pieces() -> AsyncIterator[pb.ImportUserRequest]:
        yield pb.ImportUserRequest(user_id="ana", data=first)
        await go_on.wait()
        yield pb.ImportUserRequest(user_id="ana", data=rest)

    async def whole() -> pb.ImportUserResponse:
        return await services.privacy.ImportUser(pieces())

    return asyncio.create_task(whole())


def kept(found: Export) -> list[str]:
    """The records of an export that an import brings back, without what is computed anew."""
    return sorted(
        json.dumps(
            [
                table,
                {name: value for name, value in row.items() if name not in COMPUTED},
            ],
            sort_keys=True,
            ensure_ascii=False,
        )
        for table, row in found.rows
        if table in IMPORTED
    )


async def settled(services: Services, conninfo: str) -> Export:
    """An export once everything is counted and, where it is to be, sealed."""
    going = (
        "SELECT 1 FROM users WHERE to_seal > 0"
        " UNION ALL SELECT 1 FROM jobs WHERE finished_at IS NULL"
    )
    await eventually(lambda: rows(conninfo, "SELECT 1 FROM memory_access"), seconds=BOUND)
    await eventually(lambda: not rows(conninfo, going), seconds=BOUND)
    return await export(services)


@dataclass(frozen=True)
class Lived:
    """A user of a tenant of its own, and what was exported of it."""

    services: Services
    conninfo: str
    export: Export

    @property
    def data(self) -> bytes:
        return self.export.text.encode()


async def lived(shared: Shared, model: ScriptedModel, *, encrypt: bool) -> Lived:
    tenant = Tenant()
    services = shared.services.as_tenant(tenant)
    conninfo = tenant.rows_of(shared.superuser_conninfo)
    model.start_over(canary_script)
    if encrypt:
        await choose(services, encrypt_sensitive=True)
    await live(services, model)
    return Lived(services, conninfo, await settled(services, conninfo))
