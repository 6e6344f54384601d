"""Shared by all handlers: idempotency keys, tokens, update masks, reads within the deadline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from hitherto_extraction.handlers.screening import Screening
from hitherto_extraction.once import IdempotentOperation, UserCall, once
from hitherto_extraction.pipeline.free_json import Path
from hitherto_extraction.storage.idempotency import Identity
from hitherto_extraction.user_key import with_keys
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.audit.trail import Trail
from hitherto_shared.consistency import ConsistencyTokens, Position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context, current_call, seconds_left
from hitherto_shared.text.normalise import nfc
from hitherto_shared.validation import Checks

_MAX_PATH = 64 * 1024

Found = TypeVar("Found")
Request = TypeVar("Request", bound=Message)
Made = TypeVar("Made")


@dataclass(eq=False)
class Answering:
    """Runs calls on `database`, whose role is hitherto_write; that of `removal` may delete."""

    database: Database
    removal: Database
    tokens: ConsistencyTokens
    pages: PageTokens
    trail: Trail
    reads: AuditedReads
    keys: UserKeys
    screening: Screening

    async def screened(self, request: Request, context: Context) -> Request:
        """The request without secrets; everything but its idempotency key is read from this."""
        return await self.screening.screened(
            current_call().principal.tenant_id,
            request,
            seconds=seconds_left(context),
        )

    def identity(
        self, checks: Checks, request: Any, *, rpc: str = "", prefix: str = ""
    ) -> Identity | None:
        """End the checks of a call with that of its idempotency key; the caller with it, if any.

        `rpc` and `prefix` name the call and the path of a request that is part of another.
        """
        key = checks.idempotency_key(request.idempotency_key, field=f"{prefix}idempotency_key")
        checks.done()
        if key is None:
            return None
        caller = current_call().principal
        rpc = rpc or request.DESCRIPTOR.name.removesuffix("Request")
        return Identity(caller.tenant_id, self.trail.caller(caller), rpc, key, body_hash(request))

    async def change(
        self,
        identity: Identity | None,
        work: IdempotentOperation[Made],
        context: Context,
        *,
        database: Database | None = None,
        seconds: float | None = None,
    ) -> tuple[Made, str]:
        """Make a change once, within the deadline; on `database` if it needs another role.

        Returns:
            The outcome, and the consistency token of its point in time.
        """
        outcome = await once(
            database or self.database,
            identity,
            work,
            timeout=seconds_left(context, seconds),
            trail=self.trail,
        )
        return outcome.made, self.token(outcome.position)

    def admit(self, checks: Checks, user_id: str, request: Any) -> UserCall:
        """End the checks of a call about a user, whom the caller must be permitted to act for."""
        identity = self.identity(checks, request)
        principal = current_call().principal
        return UserCall(principal, principal.scope(user_id), identity)

    async def change_user(
        self,
        call: UserCall,
        change: Callable[[UserRows], Awaitable[Made]],
        again: Callable[[UserRows, Sequence[str]], Awaitable[Made]],
        context: Context,
        *,
        ids: Callable[[Made], Sequence[str]] = lambda _: [],
        touched: Callable[[Made], Sequence[str]] | None = None,
        database: Database | None = None,
        seconds: float | None = None,
    ) -> tuple[Made, str]:
        """Make a change of one user's data once, as `change` does; see `IdempotentOperation`.

        The user's data key is at hand if sealed values are read or written.

        Raises:
            KeyUnavailable: It needs the key, which is unavailable; nothing was changed.
            KeyServiceUnavailable: The same, temporarily.
        """
        user_id = call.scope.user_id
        work = IdempotentOperation(
            lambda connection: change(connection.of(call.scope)),
            lambda connection, kept: again(connection.of(call.scope), kept),
            ids,
            users=lambda _: [user_id],
            touched=None if touched is None else lambda made: {user_id: touched(made)},
        )
        return await with_keys(
            self.keys,
            [call.scope],
            lambda: self.change(call.identity, work, context, database=database, seconds=seconds),
        )

    async def remove(
        self,
        call: UserCall,
        change: Callable[[UserRows], Awaitable[dict[str, int]]],
        context: Context,
        *,
        touched: str,
        seconds: float | None = None,
    ) -> tuple[dict[str, int], str]:
        """Make a change on `removal` that removes what `touched` names, and counts it."""

        async def again(_: UserRows, ids: Sequence[str]) -> dict[str, int]:
            counts: dict[str, int] = json.loads(ids[0]) if ids else {}
            return counts

        return await self.change_user(
            call,
            change,
            again,
            context,
            ids=lambda counts: [json.dumps(counts)],
            touched=lambda _: [touched],
            database=self.removal,
            seconds=seconds,
        )

    async def read(self, work: Callable[[Connection], Awaitable[Found]], context: Context) -> Found:
        """Read from the primary within the deadline."""
        return await self.database.run(work, timeout=seconds_left(context), repeatable=True)

    def token(self, position: Position) -> str:
        """The consistency token of a point in time, for the caller's tenant."""
        return self.tokens.make(position, current_call().principal.tenant_id)

    def admit_read(self, checks: Checks, request: Any) -> None:
        """End the checks of a call that reads, and refuse the token of another tenant.

        This service reads from the primary, which has seen the position of any valid token.
        """
        checks.done()
        if request.consistency_token:
            self.tokens.open(request.consistency_token, current_call().principal.tenant_id)


def checks_of(request: Any) -> tuple[Checks, str]:
    """The checks of a call about a user, and the user."""
    checks = Checks()
    return checks, checks.identifier("user_id", request.user_id)


def body_hash(request: Message) -> bytes:
    """The hash of a request without its idempotency key."""
    copy = type(request)()
    copy.CopyFrom(request)
    copy.ClearField("idempotency_key")
    return hashlib.sha256(copy.SerializeToString(deterministic=True)).digest()


def read_update_mask(
    checks: Checks,
    request: Any,
    given: Message,
    fields: Sequence[str],
    *,
    deep: Collection[str] = (),
    example: str = "",
    most: int = 200,
    required: bool = False,
) -> list[Path]:
    """The paths to change.

    Args:
        checks: Collects violations.
        request: A request with the field `update_mask`.
        given: Its new values.
        fields: The fields that can be changed.
        deep: Those of free-form JSON, in which a path may name a key.
        example: Such a path.
        most: Maximum paths.
        required: Whether a request without paths is refused. Otherwise it means all given fields.
    """
    if required and not request.update_mask.paths:
        checks.add(
            "update_mask", f"is required: name the fields to change, among {', '.join(fields)}"
        )
        return []
    if not request.HasField("update_mask"):
        named = {field.name for field, _ in given.ListFields()}
        return [(name,) for name in fields if name in named]
    paths = request.update_mask.paths
    if len(paths) > most:
        checks.add("update_mask", f"must have at most {most} paths")
        return []
    found: list[Path] = []
    for i, text in enumerate(paths):
        # A path leads to a field, and into free JSON to a key, which is short too.
        path = tuple(nfc(text).split(".")) if len(text) <= _MAX_PATH else ("",)
        if path[0] not in fields or "" in path or (len(path) > 1 and path[0] not in deep):
            inside = f", or a path into {_listed(deep)} such as {example}" if deep else ""
            given_path = json.dumps(text[:64], ensure_ascii=False)
            checks.add(
                f"update_mask.paths[{i}]",
                f"must be one of {', '.join(fields)}{inside}, and is {given_path}",
            )
        elif len(path) > 1 and _has_dotted_key(getattr(given, path[0]), path[1:]):
            # It would change another key than the caller's, or none.
            checks.add(
                f"update_mask.paths[{i}]",
                "leads to a key with a dot in it, which no path can name: name what holds the key",
            )
        else:
            found.append(path)
    return found


def _has_dotted_key(value: Any, keys: Path) -> bool:
    """Whether a key of a Struct reads as several of these keys; a path cannot tell them apart."""
    while isinstance(value, Struct):
        held = {nfc(key): inner for key, inner in value.items()}
        if any(".".join(keys[:most]) in held for most in range(2, len(keys) + 1)):
            return True
        value, keys = held.get(keys[0]) if keys else None, keys[1:]
    return False


def _listed(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
