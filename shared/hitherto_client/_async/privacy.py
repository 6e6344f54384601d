"""What belongs to the user: settings, export, erasure, and the log of who did what."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, BinaryIO

import grpc

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client._async.calling import AsyncCalling, AsyncPages, pages, rpc
from hitherto_client._async.connection import repeated
from hitherto_client.calls import RetryPolicy
from hitherto_client.export import (
    EXPORT_SECONDS,
    ExportBroken,
    Pieces,
    Received,
    Receiver,
    write_whole,
)
from hitherto_client.results.privacy import (
    AuditEvent,
    EraseReceipt,
    ExportManifest,
    ImportedUser,
    UserSettings,
)
from hitherto_client.wire import build, read
from hitherto_client.words import SecretHandling

CLEAR_SECONDS = 300.0
"""Clearing and erasing take as long as there is to remove."""


class AsyncPrivacy(AsyncCalling):
    """Every person can see, take along and remove what is stored about them."""

    @rpc("GetUserSettings", "user_settings")
    async def get_user_settings(self, user: str, *, timeout: float | None = None) -> UserSettings:
        """The effective settings of a user."""

    @rpc("UpdateUserSettings", "user_settings", changes="user_settings")
    async def update_user_settings(
        self,
        user: str,
        *,
        memory_enabled: bool | None = None,
        learning_enabled: bool | None = None,
        retention_days: int | None = None,
        message_retention_days: int | None = None,
        encrypt_sensitive: bool | None = None,
        time_zone: str | None = None,
        redact_secrets: SecretHandling | None = None,
        clear: Iterable[str] = (),
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> UserSettings:
        """Change settings, which `UserSettings` explains; what is not given stays as it is.

        `clear` names settings to reset to the installation's values, such as `time_zone`.
        """

    @rpc("ClearMemories", "counts")
    async def clear_memories(
        self,
        user: str,
        *,
        include_profile: bool = False,
        include_conversations: bool = False,
        idempotency_key: str = "",
        timeout: float | None = CLEAR_SECONDS,
    ) -> dict[str, int]:
        """Forget all memories of a user; conversations, if included, are gone for good.

        An interrupted call keeps what it has done. The next one with the same key does the rest;
        one with another key, or none, also clears what was said since.

        Returns:
            The number of rows, by kind.
        """

    async def export_user(
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
        receiver = Receiver()

        async def receive(request: pb.ExportUserRequest, *, timeout: float) -> ExportManifest:
            stream = self.connection.privacy.ExportUser(request, timeout=timeout)
            try:
                with self._target.extraction.ended():
                    async for reply in stream:
                        if reply.HasField("manifest"):
                            receiver.check(reply.manifest)
                            return read(ExportManifest, reply.manifest)
                        receiver.take(reply.data)
                        write_whole(into, reply.data)
                        if progress is not None:
                            progress(receiver.progress())
            except grpc.RpcError as raised:
                raise self._target.extraction.error(raised) from raised
            finally:
                stream.cancel()
            raise ExportBroken("the export ended without its manifest: ask for it again")

        # A refused token is refused before any data.
        return await self._read(receive, build(pb.ExportUserRequest, user_id=user), user, timeout)

    async def import_user(
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
        interrupted one. A service that has taken a piece is waited for, if it goes, within
        `timeout`.

        Args:
            user: Who receives the records; need not have the name of the export's user.
            export: What `export_user` wrote. If the call breaks off, a file that can be reread is
                sent again from where it stood.
            progress: Called with the bytes sent after every piece.
            idempotency_key: Unset: a new one for each call.
            timeout: Seconds for all of it (an hour), retries included.

        Raises:
            HithertoCallError: A record is invalid, or the user may not receive it; what was stored
                before stays. What `export` or `progress` raises, is raised as it is.
        """
        key = idempotency_key or uuid.uuid4().hex
        start = export.tell() if export.seekable() else None
        retry = RetryPolicy(attempts=1) if start is None else self._target.retry

        sending = Pieces(export, user, key, progress)

        def attempt(left: float) -> Any:
            if start is not None:
                export.seek(start)
            return self.connection.privacy.ImportUser(iter(sending), timeout=left)

        begun = self._tokens.begin()
        try:
            reply = await repeated(
                attempt, self._target.extraction, retry, timeout, taken=lambda: sending.taken
            )
        except BaseException:
            if sending.failure is not None:
                raise sending.failure from None
            raise
        self._tokens.note(user, reply.consistency_token, begun=begun)
        return read(ImportedUser, reply)

    @rpc("EraseUser", "receipt")
    async def erase_user(
        self, user: str, *, idempotency_key: str = "", timeout: float | None = CLEAR_SECONDS
    ) -> EraseReceipt:
        """Remove everything that is stored about a user, for good.

        Later writes for the user fail with `USER_ERASED` until `reinstate_user`. An interrupted
        call keeps what it has done; the next call does the rest, and its receipt covers all of it.
        """

    @rpc("ReinstateUser", "reinstated")
    async def reinstate_user(
        self, user: str, *, idempotency_key: str = "", timeout: float | None = None
    ) -> bool:
        """Allow writes for an erased user again; nothing that was erased comes back.

        Returns:
            True if the user was erased before.
        """

    @pages("ListAuditEvents")
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
    ) -> AsyncPages[AuditEvent]:
        """The audit log, newest first: writes, exports, erasures, and reads of others' data.

        The credential needs the scope `admin`. `actor` is the name of a credential, and `methods`
        are RPCs or kinds of jobs.
        """
