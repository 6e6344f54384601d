"""Settings and clearing over the wire, for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import privacy_pb2, retrieval_service_pb2, search_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from tests.e2e.conftest import Services

SCOPES = [number for number in search_pb2.SearchScope.values() if number]


async def settings(services: Services, user: str = "ana") -> privacy_pb2.UserSettings:
    """The settings in force."""
    reply = await services.privacy.GetUserSettings(pb.GetUserSettingsRequest(user_id=user))
    return reply.user_settings


async def choose(
    services: Services,
    *,
    user: str = "ana",
    mask: Sequence[str] | None = None,
    key: str = "",
    **values: Any,
) -> privacy_pb2.UserSettings:
    """Change settings; what they are afterwards."""
    reply = await services.privacy.UpdateUserSettings(
        pb.UpdateUserSettingsRequest(
            user_id=user,
            user_settings=privacy_pb2.UserSettings(**values),
            update_mask=None if mask is None else FieldMask(paths=mask),
            idempotency_key=key,
        )
    )
    return reply.user_settings


async def clear(
    services: Services,
    *,
    user: str = "ana",
    profile: bool = False,
    conversations: bool = False,
    key: str = "",
) -> dict[str, int]:
    """Clear; the counts."""
    reply = await services.privacy.ClearMemories(
        pb.ClearMemoriesRequest(
            user_id=user,
            include_profile=profile,
            include_conversations=conversations,
            idempotency_key=key,
        )
    )
    return dict(reply.counts)


async def search(
    services: Services, query: str, *, user: str = "ana", **fields: Any
) -> retrieval_service_pb2.SearchMemoriesResponse:
    return await services.retrieval.SearchMemories(
        retrieval_service_pb2.SearchMemoriesRequest(user_id=user, query=query, **fields)
    )


async def context(
    services: Services, query: str, *, user: str = "ana"
) -> retrieval_service_pb2.GetContextResponse:
    """What an assistant is told."""
    return await services.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(user_id=user, query=query)
    )
