# Generated from ../_async/privacy.py by tools/unasync.py. Do not edit.
"""What belongs to the user: settings, export, erasure, and the log of who did what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import BinaryIO

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client._sync.calling import Calling
from hitherto_client._sync.exports import receive_export, send_export
from hitherto_client._sync.pages import Pages
from hitherto_client.export import EXPORT_SECONDS, Received
from hitherto_client.results.privacy import (
    EraseReceipt,
    ExportManifest,
    ImportedUser,
    UserSettings,
)
from hitherto_client.results.upkeep import AuditEvent
from hitherto_client.wire import build, read

CLEAR_SECONDS = 300.0
"""Clearing and erasing take as long as there is to remove."""


class Privacy(Calling):
    """Every person can see, take along and remove what is stored about them."""

    def get_user_settings(self, user: str, *, timeout: float | None = None) -> UserSettings:
        """The effective settings of a user."""
        request = build(pb.GetUserSettingsRequest, user_id=user)
        reply = self._read(self.connection.privacy.GetUserSettings, request, user, timeout)
        return read(UserSettings, reply.user_settings)

    def update_user_settings(
        self,
        user: str,
        *,
        memory_enabled: bool | None = None,
        learning_enabled: bool | None = None,
        retention_days: int | None = None,
        message_retention_days: int | None = None,
        encrypt_sensitive: bool | None = None,
        time_zone: str | None = None,
        clear: tuple[str, ...] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UserSettings:
        """Change settings; what is not given stays as it is.

        Args:
            user: Whose settings.
            memory_enabled: False: nothing is read or learnt about the user.
            learning_enabled: False: nothing is learnt from conversations.
            retention_days: Days after which an unused memory is removed; 0 for never.
            message_retention_days: Days after which messages are removed; 0 for never.
            encrypt_sensitive: True: texts are encrypted with a key of the user's own.
            time_zone: IANA name of the zone of relative dates.
            clear: Settings to reset to the installation's values, such as `time_zone`.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds, retries included. Unset: 30.
        """
        given = {
            "memory_enabled": memory_enabled,
            "learning_enabled": learning_enabled,
            "retention_days": retention_days,
            "message_retention_days": message_retention_days,
            "encrypt_sensitive": encrypt_sensitive,
            "time_zone": time_zone,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        request = build(
            pb.UpdateUserSettingsRequest,
            user_id=user,
            user_settings=changes,
            update_mask=[*changes, *clear],
            idempotency_key=idempotency_key,
        )
        reply = self._write(self.connection.privacy.UpdateUserSettings, request, user, timeout)
        return read(UserSettings, reply.user_settings)

    def clear_memories(
        self,
        user: str,
        *,
        include_profile: bool = False,
        include_conversations: bool = False,
        idempotency_key: str = "",
        timeout: float | None = CLEAR_SECONDS,
    ) -> dict[str, int]:
        """Forget all memories of a user; conversations, if included, are gone for good.

        An interrupted call keeps what it has done; the next call does the rest.

        Returns:
            The number of rows, by kind.
        """
        request = build(
            pb.ClearMemoriesRequest,
            user_id=user,
            include_profile=include_profile,
            include_conversations=include_conversations,
            idempotency_key=idempotency_key,
        )
        reply = self._write(self.connection.privacy.ClearMemories, request, user, timeout)
        return dict(reply.counts)

    def export_user(
        self,
        user: str,
        into: BinaryIO,
        *,
        progress: Callable[[Received], None] | None = None,
        timeout: float = EXPORT_SECONDS,
    ) -> ExportManifest:
        """Write all data of a user to `into`, as JSON lines, and return the manifest.

        The data are checked against the manifest: size, digest and the lines of each table.

        Args:
            user: Whose data.
            into: A binary file or stream; a few hundred KiB are in memory at a time.
            progress: Called with the progress after every piece.
            timeout: Seconds for all of it (an hour).

        Raises:
            HithertoCallError: The call failed; what was written so far is incomplete.
            ExportBroken: The data do not match the manifest.
        """
        manifest = receive_export(
            self.connection.privacy.ExportUser,
            self._target.extraction,
            build(pb.ExportUserRequest, user_id=user, consistency_token=self._tokens.of(user)),
            into,
            progress=progress,
            timeout=timeout,
        )
        return read(ExportManifest, manifest)

    def import_user(
        self,
        user: str,
        export: BinaryIO,
        *,
        progress: Callable[[int], None] | None = None,
        idempotency_key: str = "",
        timeout: float = EXPORT_SECONDS,
    ) -> ImportedUser:
        """Store the records of an export again, as they were written; no model is called.

        The user must be unknown or hold nothing, or be the user of the export. In the last case,
        records that the user holds are skipped, so that the import of the same file continues an
        interrupted one.

        Args:
            user: Who receives the records; need not have the name of the export's user.
            export: What `export_user` wrote. If the call breaks off, a file that can be reread is
                sent again from where it stood.
            progress: Called with the bytes sent after every piece.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds for all of it (an hour), retries included.

        Raises:
            HithertoCallError: A record is invalid, or the user may not receive it; what was stored
                before stays.
        """
        begun = self._tokens.begin()
        reply = send_export(
            self.connection.privacy.ImportUser,
            self._target.extraction,
            self._target.retry,
            user,
            export,
            idempotency_key=idempotency_key,
            progress=progress,
            timeout=timeout,
        )
        self._tokens.note(user, reply.consistency_token, begun=begun)
        return read(ImportedUser, reply)

    def erase_user(
        self, user: str, *, idempotency_key: str = "", timeout: float | None = CLEAR_SECONDS
    ) -> EraseReceipt:
        """Remove everything that is stored about a user, for good.

        Later writes for the user fail with `USER_ERASED` until `reinstate_user`. An interrupted
        call keeps what it has done; the next call does the rest, and its receipt covers all of it.
        """
        request = build(pb.EraseUserRequest, user_id=user, idempotency_key=idempotency_key)
        reply = self._write(self.connection.privacy.EraseUser, request, user, timeout)
        return read(EraseReceipt, reply.receipt)

    def reinstate_user(
        self, user: str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> bool:
        """Allow writes for an erased user again; nothing that was erased comes back.

        Returns:
            True if the user was erased before.
        """
        request = build(pb.ReinstateUserRequest, user_id=user, idempotency_key=idempotency_key)
        reply = self._write(self.connection.privacy.ReinstateUser, request, user, timeout)
        return reply.reinstated

    def audit_events(
        self,
        user: str = "",
        *,
        actor: str = "",
        methods: Iterable[str] = (),
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> Pages[AuditEvent]:
        """The audit log, newest first: writes, exports, erasures, and reads of others' data.

        The credential needs the scope `admin`.

        Args:
            user: Only entries about this user. Empty: the whole tenant's.
            actor: Only entries of the credential with this name.
            methods: Only entries of one of these RPCs or jobs.
            created_after: Only entries then or later.
            created_before: Only entries before then.
            page_size: Entries per call, 200 at most.
            timeout: Seconds for each page. Unset: 10.
        """
        request = build(
            pb.ListAuditEventsRequest,
            user_id=user,
            actor=actor,
            methods=methods,
            created_after=created_after,
            created_before=created_before,
            page_size=page_size,
        )
        return self._list(
            self.connection.privacy.ListAuditEvents,
            request,
            user,
            timeout,
            rows="audit_events",
            kind=AuditEvent,
        )
