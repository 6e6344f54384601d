"""PrivacyService: users' control of their own data, and the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto.v1 import privacy_pb2, privacy_service_pb2_grpc
from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_extraction.curation.clearing import Clearing, ClearRequest, shorten
from hitherto_extraction.curation.erasing import Erasing
from hitherto_extraction.curation.exporting import Exporting, Manifest
from hitherto_extraction.curation.user_settings import (
    NAMES,
    UserSettings,
    change_settings,
    prepare_sealing,
    read_settings,
)
from hitherto_extraction.handlers.answering import (
    Answering,
    checks_of,
    read_update_mask,
)
from hitherto_extraction.handlers.incoming_export import pieces_of_export
from hitherto_extraction.pipeline.message_removal import delete_conversation
from hitherto_extraction.restoring.call import ImportCall
from hitherto_extraction.restoring.importing import Importing
from hitherto_extraction.storage import audit
from hitherto_extraction.storage.audit import AuditFilter
from hitherto_extraction.storage.erasure import Receipt
from hitherto_extraction.storage.idempotency import Identity
from hitherto_extraction.storage.reindexing import sweep_postings
from hitherto_extraction.storage.users import is_erased
from hitherto_shared.convert import SECRET_HANDLING, timestamp
from hitherto_shared.database.audit_log import AuditEvent
from hitherto_shared.database.pool import Connection, countdown
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.errors import invalid
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.validation import Checks

ERASE_SECONDS = 300.0
"""An erasure takes as long as there is data to erase; a caller's deadline may be shorter."""
EXPORT_SECONDS = 3_600.0
"""Time limit for a caller to send or receive an export."""
CLEAR_SECONDS = 300.0
"""Clearing takes as long as there is data to clear; a caller's deadline may be shorter."""
MAX_DAYS = 36_500
_MAX_PATHS = 50
_DAYS = ("retention_days", "message_retention_days")
_MAX_METHODS = 100
_MAX_METHOD = 200
_MAX_ACTOR = 512


@dataclass(eq=False)
class PrivacyHandlers(privacy_service_pb2_grpc.PrivacyServiceServicer):
    """Implements PrivacyService; `installation` are the settings of users who did not choose."""

    answering: Answering
    installation: UserSettings
    clearing: Clearing
    erasing: Erasing
    exporting: Exporting
    importing: Importing

    async def ReinstateUser(
        self, request: pb.ReinstateUserRequest, context: Context
    ) -> pb.ReinstateUserResponse:
        """Permit writes about an erased user again."""
        checks, user_id = checks_of(request)
        call = self.answering.admit(checks, user_id, request)
        outcome = await self.erasing.reinstate(call, timeout=seconds_left(context))
        return pb.ReinstateUserResponse(
            reinstated=outcome.made, consistency_token=self.answering.token(outcome.position)
        )

    async def ExportUser(
        self, request: pb.ExportUserRequest, context: Context
    ) -> AsyncIterator[pb.ExportUserResponse]:
        """All data of a user, then the manifest."""
        checks, user_id = checks_of(request)
        self.answering.admit_read(checks, request)
        pieces = self.exporting.run(
            current_call().principal.scope(user_id),
            fence=self.answering.database,
            timeout=seconds_left(context, EXPORT_SECONDS),
        )
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Manifest):
                    yield pb.ExportUserResponse(
                        manifest=privacy_pb2.ExportManifest(
                            user_id=user_id,
                            created_at=timestamp(piece.created_at),
                            counts=piece.counts,
                            total_bytes=piece.total_bytes,
                            sha256=piece.sha256,
                        )
                    )
                else:
                    yield pb.ExportUserResponse(data=piece)

    async def ImportUser(
        self, request_iterator: AsyncIterator[pb.ImportUserRequest], context: Context
    ) -> pb.ImportUserResponse:
        """Store the records of an export again."""
        requests = aiter(request_iterator)
        first = await anext(requests, None)
        if first is None:
            raise invalid("user_id", "is required")
        checks = Checks()
        user_id = checks.identifier("user_id", first.user_id)
        key = checks.idempotency_key(first.idempotency_key)
        checks.done()
        principal = current_call().principal
        identity = None
        if key is not None:
            caller = self.answering.trail.caller(principal)
            identity = Identity(principal.tenant_id, caller, "ImportUser", key, b"")
        now = asyncio.get_running_loop().time()
        ends = now + seconds_left(context, EXPORT_SECONDS)
        call = ImportCall(principal, principal.scope(user_id), identity, ends)
        async with aclosing(pieces_of_export(first, requests, user_id)) as pieces:
            made = await self.importing.run(call, pieces)
        assert made.position is not None
        return pb.ImportUserResponse(
            imported_counts=+made.stored,
            skipped_counts=+made.skipped,
            left_out_counts=+made.left_out,
            consistency_token=self.answering.token(made.position),
        )

    async def EraseUser(
        self, request: pb.EraseUserRequest, context: Context
    ) -> pb.EraseUserResponse:
        """Erase all data; another call continues an interrupted one."""
        checks, user_id = checks_of(request)
        call = self.answering.admit(checks, user_id, request)
        outcome = await self.erasing.erase(call, timeout=seconds_left(context, ERASE_SECONDS))
        return pb.EraseUserResponse(
            receipt=_receipt(outcome.made),
            consistency_token=self.answering.token(outcome.position),
        )

    async def ClearMemories(
        self, request: pb.ClearMemoriesRequest, context: Context
    ) -> pb.ClearMemoriesResponse:
        """Forget everything; another call continues an interrupted one."""
        checks, user_id = checks_of(request)
        call = self.answering.admit(checks, user_id, request)
        outcome = await self.clearing.run(
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
            counts=outcome.made, consistency_token=self.answering.token(outcome.position)
        )

    async def DeleteConversation(
        self, request: pb.DeleteConversationRequest, context: Context
    ) -> pb.DeleteConversationResponse:
        """Delete a conversation; memories learnt from it stay."""
        checks, user_id = checks_of(request)
        conversation_id = checks.identifier("conversation_id", request.conversation_id)
        call = self.answering.admit(checks, user_id, request)
        left = countdown(seconds_left(context, CLEAR_SECONDS))
        before = await shorten(
            self.answering.removal, call.identity, call.scope, conversation_id, left
        )

        async def delete(user: UserRows) -> dict[str, int]:
            counts = await delete_conversation(user, conversation_id, sweep=not before)
            if before:
                await sweep_postings(user)
            return {name: count + before[name] for name, count in counts.items()}

        counts, token = await self.answering.remove(
            call,
            delete,
            context,
            touched=conversation_id,
            seconds=left(),
        )
        return pb.DeleteConversationResponse(counts=counts, consistency_token=token)

    async def GetUserSettings(
        self, request: pb.GetUserSettingsRequest, context: Context
    ) -> pb.GetUserSettingsResponse:
        """The effective settings of a user."""
        checks, user_id = checks_of(request)
        self.answering.admit_read(checks, request)
        scope = current_call().principal.scope(user_id)

        async def read(connection: Connection) -> tuple[UserSettings, bool]:
            user = connection.of(scope)
            return await read_settings(user, self.installation), await is_erased(user)

        await self.answering.reads.note([user_id], timeout=seconds_left(context))
        found, erased = await self.answering.read(read, context)
        return pb.GetUserSettingsResponse(user_settings=_settings_message(found, erased=erased))

    async def UpdateUserSettings(
        self, request: pb.UpdateUserSettingsRequest, context: Context
    ) -> pb.UpdateUserSettingsResponse:
        """Change settings of a user."""
        checks, user_id = checks_of(request)
        values = _values(checks, request.user_settings)
        paths = read_update_mask(checks, request, request.user_settings, NAMES, most=_MAX_PATHS)
        names = [name for (name,) in paths]
        call = self.answering.admit(checks, user_id, request)
        scope = call.scope
        installation = self.installation
        sealing = None
        if "encrypt_sensitive" in names and values.get("encrypt_sensitive"):
            sealing = await prepare_sealing(
                self.answering.database,
                scope,
                self.answering.keys,
                seconds=seconds_left(context),
            )

        async def change(user: UserRows) -> UserSettings:
            return await change_settings(user, values, names, installation, sealing)

        async def again(user: UserRows, _ids: Sequence[str]) -> UserSettings:
            return await read_settings(user, installation)

        made, token = await self.answering.change_user(call, change, again, context)
        return pb.UpdateUserSettingsResponse(
            user_settings=_settings_message(made), consistency_token=token
        )

    async def ListAuditEvents(
        self, request: pb.ListAuditEventsRequest, context: Context
    ) -> pb.ListAuditEventsResponse:
        """The tenant's audit log, newest first."""
        checks = Checks()
        tenant = current_call().principal.tenant_id
        trail = self.answering.trail
        user_id = checks.identifier("user_id", request.user_id, required=False)
        actor = checks.identifier("actor", request.actor, required=False, max_chars=_MAX_ACTOR)
        wanted = AuditFilter(
            user_hash=trail.hash(tenant, user_id) or None,
            actors=trail.actors(tenant, actor) if actor else None,
            methods=checks.texts(
                "methods", request.methods, maximum=_MAX_METHODS, max_chars=_MAX_METHOD
            )
            or None,
            since=checks.moment("created_after", request, "created_after"),
            until=checks.moment("created_before", request, "created_before"),
        )
        page = self.answering.pages.open(checks, tenant, request)
        self.answering.admit_read(checks, request)
        before = None
        if page.after is not None:
            before = (datetime.fromisoformat(page.after[0]), UUID(page.after[1]))

        async def work(connection: Connection) -> pb.ListAuditEventsResponse:
            found, following = await audit.page(
                connection, tenant, wanted, before=before, limit=page.size
            )
            place = None
            if following is not None:
                place = [following[0].isoformat(), str(following[1])]
            return pb.ListAuditEventsResponse(
                audit_events=map(_event_message, found), next_page_token=page.seal(place)
            )

        return await self.answering.read(work, context)


def _receipt(receipt: Receipt) -> privacy_pb2.EraseReceipt:
    assert receipt.erased_at is not None
    return privacy_pb2.EraseReceipt(
        id=str(receipt.receipt_id),
        user_hash=receipt.user_hash,
        erased_at=timestamp(receipt.erased_at),
        counts=receipt.counts,
        signed_payload=receipt.signed_payload or "",
        signature=receipt.signature or b"",
        key_id=receipt.key_id or "",
    )


def _values(checks: Checks, given: privacy_pb2.UserSettings) -> dict[str, Any]:
    """The new values, without absent ones."""
    values = {field.name: value for field, value in given.ListFields()}
    for name in _DAYS:
        if not 0 <= values.get(name, 0) <= MAX_DAYS:
            checks.add(
                f"user_settings.{name}", f"must be a number of days from 0 (never) to {MAX_DAYS}"
            )
    if "redact_secrets" in values:
        chosen = checks.one_of(
            "user_settings.redact_secrets", values["redact_secrets"], SECRET_HANDLING
        )
        values["redact_secrets"] = chosen
    if "time_zone" in values:
        # An empty value is not a zone: a reset to the installation's default is named in the mask
        # alone.
        checks.time_zone("user_settings.time_zone", values["time_zone"] or " ")
    return values


def _settings_message(found: UserSettings, *, erased: bool = False) -> privacy_pb2.UserSettings:
    handling = SECRET_HANDLING.numbers[found.redact_secrets]
    values = {**asdict(found), "redact_secrets": handling}
    return privacy_pb2.UserSettings(**values, erased=erased)


def _event_message(event: AuditEvent) -> privacy_pb2.AuditEvent:
    return privacy_pb2.AuditEvent(
        id=str(event.event_id),
        created_at=timestamp(event.created_at),
        actor=event.actor,
        method=event.method,
        user_hash=event.user_hash,
        resource_ids=map(str, event.resource_ids),
        count=event.count,
    )
