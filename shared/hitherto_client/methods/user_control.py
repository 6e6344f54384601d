"""A user's settings, and clearing all memories."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.methods.stubs import Stubs

CLEAR_SECONDS = 300.0
"""Clearing takes as long as there is to clear."""


class UserControl(Stubs):
    """Calls of PrivacyService on settings and memories."""

    def get_user_settings(
        self, user_id: str, *, consistency_token: str = "", timeout: float | None = None
    ) -> pb.GetUserSettingsResponse:
        """The effective settings of a user."""
        request = pb.GetUserSettingsRequest(user_id=user_id, consistency_token=consistency_token)
        return self.privacy.GetUserSettings(request, timeout=timeout)

    def update_user_settings(
        self,
        user_id: str,
        settings: privacy_pb2.UserSettings,
        *,
        paths: Sequence[str] | None = None,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> pb.UpdateUserSettingsResponse:
        """Change the settings that have a value, or `paths`.

        A path without a value in `settings` is reset to the installation's value.
        """
        request = pb.UpdateUserSettingsRequest(
            user_id=user_id,
            user_settings=settings,
            update_mask=None if paths is None else FieldMask(paths=paths),
            idempotency_key=idempotency_key,
        )
        return self.privacy.UpdateUserSettings(request, timeout=timeout)

    def clear_memories(
        self,
        user_id: str,
        *,
        include_profile: bool = False,
        include_conversations: bool = False,
        idempotency_key: str = "",
        timeout: float | None = CLEAR_SECONDS,
    ) -> pb.ClearMemoriesResponse:
        """Forget all memories of a user; conversations, if included, are gone for good.

        An interrupted call keeps what it has done; the next call does the rest.
        """
        request = pb.ClearMemoriesRequest(
            user_id=user_id,
            include_profile=include_profile,
            include_conversations=include_conversations,
            idempotency_key=idempotency_key,
        )
        return self.privacy.ClearMemories(request, timeout=timeout)
