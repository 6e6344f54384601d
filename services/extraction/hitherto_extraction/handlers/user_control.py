"""The RPCs of PrivacyService on user settings and clearing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hitherto.v1 import privacy_pb2
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.curation.clearing import Clearing, ClearRequest
from hitherto_extraction.curation.user_settings import (
    NAMES,
    UserSettings,
    change_settings,
    prepare_sealing,
    read_settings,
)
from hitherto_extraction.handlers.answering import CALL_SECONDS, Answering
from hitherto_extraction.handlers.update_mask import read_update_mask
from hitherto_shared.database.pool import Connection
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

CLEAR_SECONDS = 300.0
"""Clearing takes as long as there is data to clear; a caller's deadline may be shorter."""
MAX_DAYS = 36_500
_MAX_PATHS = 50
_DAYS = ("retention_days", "message_retention_days")


class UserControlCalls:
    """Implements them."""

    _answering: Answering
    _installation: UserSettings
    _clearing: Clearing

    async def GetUserSettings(
        self, request: pb.GetUserSettingsRequest, context: Context
    ) -> pb.GetUserSettingsResponse:
        """The effective settings of a user."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        checks.done()
        self._answering.check_token(request.consistency_token)
        scope = current_call().principal.scope(user_id)

        async def read(connection: Connection) -> UserSettings:
            return await read_settings(connection, scope, self._installation)

        found = await self._answering.read(read, context, about=user_id)
        return pb.GetUserSettingsResponse(user_settings=_message(found))

    async def UpdateUserSettings(
        self, request: pb.UpdateUserSettingsRequest, context: Context
    ) -> pb.UpdateUserSettingsResponse:
        """Change settings of a user."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        values = _values(checks, request.user_settings)
        paths = read_update_mask(checks, request, request.user_settings, NAMES, most=_MAX_PATHS)
        names = [name for (name,) in paths]
        call = self._answering.admit(checks, user_id, request)
        scope = call.scope
        installation = self._installation
        sealing = None
        if "encrypt_sensitive" in names and values.get("encrypt_sensitive"):
            sealing = await prepare_sealing(
                self._answering.database,
                scope,
                self._answering.keys,
                seconds=seconds_left(context, CALL_SECONDS),
            )

        async def change(connection: Connection) -> UserSettings:
            return await change_settings(connection, scope, values, names, installation, sealing)

        async def again(connection: Connection, _ids: Sequence[str]) -> UserSettings:
            return await read_settings(connection, scope, installation)

        outcome = await self._answering.change_user(call, change, again, context)
        return pb.UpdateUserSettingsResponse(
            user_settings=_message(outcome.made),
            consistency_token=self._answering.token(outcome.position),
        )

    async def ClearMemories(
        self, request: pb.ClearMemoriesRequest, context: Context
    ) -> pb.ClearMemoriesResponse:
        """Forget everything; another call continues an interrupted one."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        call = self._answering.admit(checks, user_id, request)
        outcome = await self._clearing.run(
            call.identity,
            ClearRequest(
                call.scope,
                call.principal.subject,
                profile=request.include_profile,
                conversations=request.include_conversations,
            ),
            timeout=seconds_left(context, CLEAR_SECONDS),
        )
        return pb.ClearMemoriesResponse(
            counts=outcome.made, consistency_token=self._answering.token(outcome.position)
        )


def _values(checks: Checks, given: privacy_pb2.UserSettings) -> dict[str, Any]:
    """The new values, without absent ones."""
    values = {field.name: value for field, value in given.ListFields()}
    for name in _DAYS:
        if not 0 <= values.get(name, 0) <= MAX_DAYS:
            checks.add(
                f"user_settings.{name}", f"must be a number of days from 0 (never) to {MAX_DAYS}"
            )
    if "time_zone" in values:
        # An empty value is not a zone: a reset to the installation's default is named in the mask
        # alone.
        checks.time_zone("user_settings.time_zone", values["time_zone"] or " ")
    return values


def _message(found: UserSettings) -> privacy_pb2.UserSettings:
    return privacy_pb2.UserSettings(**asdict(found))
