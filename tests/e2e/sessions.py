"""Working memory of Ana's and of others, written, read and let go by, for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import (
    conversation_pb2,
    retrieval_service_pb2,
    session_pb2,
    session_service_pb2_grpc,
)
from hitherto.v1 import session_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.learning import rows
from tests.e2e.methods import Refusal, read_refusal

PENDING = session_pb2.PENDING_ACTION_STATE_PENDING_CONFIRMATION
CONFIRMED = session_pb2.PENDING_ACTION_STATE_CONFIRMED
COMPLETED = session_pb2.PENDING_ACTION_STATE_COMPLETED
REJECTED = session_pb2.PENDING_ACTION_STATE_REJECTED
EXPIRED = session_pb2.PENDING_ACTION_STATE_EXPIRED
TALK = {
    "last_message": "Nhắc mình mua trà sen 🍵 ở Huế nhé",
    "last_response": "Đã ghi lại. 👩‍🍳 مرحبا 你好",
    "entities_mentioned": ["Huế", "Đà Nẵng"],
    "context_used_count": 3.0,
    "plan": {"steps": [1.0, {"done": False, "note": None}]},
}


def stub(services: Services) -> session_service_pb2_grpc.SessionServiceAsyncStub:
    """SessionService as the extraction service offers it."""
    return session_service_pb2_grpc.SessionServiceStub(services.extraction_channel)


def free(value: dict[str, Any]) -> Struct:
    """Free JSON as it is sent."""
    struct = Struct()
    struct.update(value)
    return struct


def plain(struct: Struct) -> dict[str, Any]:
    """Free JSON as it was before it was sent."""
    return json_format.MessageToDict(struct)


def items(*ids: str) -> list[conversation_pb2.ContextItem]:
    """What an answer used."""
    return [conversation_pb2.ContextItem(id=name, relevance=0.5) for name in ids]


async def update(
    services: Services,
    context: dict[str, Any] | None = None,
    *,
    user: str = "ana",
    session: str = "s1",
    recent: list[conversation_pb2.ContextItem] | None = None,
    key: str = "",
) -> pb.UpdateSessionResponse:
    """Update a session of Ana's; what is None stays unset."""
    return await stub(services).UpdateSession(
        pb.UpdateSessionRequest(
            user_id=user,
            session_id=session,
            context=None if context is None else free(context),
            recent_items=recent,
            idempotency_key=key,
        )
    )


async def add(
    services: Services, type: str = "send_email", *, user: str = "ana", session: str = "s1"
) -> session_pb2.PendingAction:
    response = await stub(services).AddPendingAction(
        pb.AddPendingActionRequest(
            user_id=user,
            session_id=session,
            type=type,
            params=free({"to": "linh@example.com", "subject": "Trà sen 🍵"}),
            description="Gửi thư cho Linh?",
        )
    )
    return response.pending_action


async def resolve(
    services: Services,
    action_id: str,
    status: session_pb2.PendingActionState.ValueType,
    *,
    user: str = "ana",
    session: str = "",
    result: dict[str, Any] | None = None,
    key: str = "",
) -> session_pb2.PendingAction:
    response = await stub(services).ResolvePendingAction(
        pb.ResolvePendingActionRequest(
            user_id=user,
            session_id=session,
            pending_action_id=action_id,
            status=status,
            result=None if result is None else free(result),
            idempotency_key=key,
        )
    )
    return response.pending_action


async def read(
    services: Services, session: str = "s1", *, user: str = "ana", token: str = ""
) -> retrieval_service_pb2.GetSessionResponse:
    """The session as the retrieval service shows it."""
    return await services.retrieval.GetSession(
        retrieval_service_pb2.GetSessionRequest(
            user_id=user, session_id=session, consistency_token=token
        )
    )


async def refusal_of(going: Awaitable[Any]) -> Refusal:
    """How a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await going
    return read_refusal(caught.value)


def let_pass(conninfo: str, **seconds: int) -> None:
    """Move the end of all rows of each table by so many seconds towards the past."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for table, amount in seconds.items():
            connection.execute(
                f"UPDATE hitherto.{table}"
                " SET expires_at = expires_at - make_interval(secs => %s)".encode(),
                [amount],
            )


def lives_for(conninfo: str, table: str) -> int:
    """For how many seconds the one row of the table lives after its last update, rounded."""
    ((seconds,),) = rows(
        conninfo, f"SELECT extract(epoch FROM expires_at - updated_at) FROM hitherto.{table}"
    )
    return round(float(seconds))
