"""WatchMemories: changes as they happen."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from google.protobuf.duration_pb2 import Duration

from hitherto.v1 import change_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.change_feed import ChangeFeed, ChangePage, Selection
from hitherto_retrieval.handlers.reading import ReadCalls
from hitherto_retrieval.opening import Opener
from hitherto_retrieval.storage import memories
from hitherto_retrieval.storage.statement import ask_at
from hitherto_shared.changes import ToldChange, change_message
from hitherto_shared.consistency import ConsistencyTokens
from hitherto_shared.convert import EVENT_KIND, memory_message
from hitherto_shared.models import Memory, Scope
from hitherto_shared.rpc.call import CALL_SECONDS, current_call, seconds_left
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.sealing import BrokenToken, Sealer
from hitherto_shared.validation import Checks

_HEARTBEAT_SECONDS = (1.0, 15.0, 60.0)
"""The least, the default and the most."""
_STREAM_SECONDS = 600.0
"""After this time a watcher must come back, so that its token is checked again."""
_MARGIN_SECONDS = 0.5
"""A stream with a deadline ends so long before it, and so without an error."""
_AT_ONCE = 200
_AT_ONCE_WITH_CONTENTS = 20


class WatchTokens:
    """Creates and opens the tokens of places in the stream of changes."""

    def __init__(self, secret: bytes) -> None:
        """`secret` is the deployment's."""
        self._sealer = Sealer(secret, "changes")

    def make(self, place: int, tenant_id: str, user_id: str) -> str:
        """The token of a place; `user_id` is empty for everybody."""
        return self._sealer.seal({"p": place}, [tenant_id, user_id])

    def open(self, checks: Checks, token: str, tenant_id: str, user_id: str) -> int | None:
        """The place of a token, if there is one."""
        if not token:
            return None
        try:
            return int(self._sealer.open(token, [tenant_id, user_id])["p"])
        except BrokenToken:
            checks.add(
                "after",
                "is not the token of a message of this stream: send it unchanged and with the "
                "same user_id, or leave it out to begin with the next change",
                reason="INVALID_WATCH_TOKEN",
            )
            return None


class WatchCalls(ReadCalls):
    """Implements it."""

    _feed: ChangeFeed
    _watch_tokens: WatchTokens
    _consistency: ConsistencyTokens

    async def WatchMemories(
        self, request: pb.WatchMemoriesRequest, context: CallContext
    ) -> AsyncIterator[pb.WatchMemoriesResponse]:
        """Changes of a user or of the tenant, with the token of each place."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id, required=False)
        kinds = checks.all_of("kinds", request.kinds, EVENT_KIND)
        tenant = current_call().principal.tenant_id
        after = self._watch_tokens.open(checks, request.after, tenant, user_id)
        heartbeat = _heartbeat(checks, request)
        checks.done()
        if request.consistency_token:
            # The primary, which is read, has seen the position of any valid token.
            self._consistency.open(request.consistency_token, tenant)
        if user_id:
            await self._audit.note([user_id], timeout=seconds_left(context))
        selection = Selection(tenant, user_id or None, frozenset(kinds))
        size = _AT_ONCE_WITH_CONTENTS if request.include_content else _AT_ONCE
        seconds = seconds_left(context, _STREAM_SECONDS + _MARGIN_SECONDS) - _MARGIN_SECONDS
        pages = self._feed.follow(selection, after, heartbeat=heartbeat, seconds=seconds)
        async for page in pages:
            for changes, place in _parts(page, size):
                messages = await self._messages(
                    tenant, changes, include_content=request.include_content
                )
                yield pb.WatchMemoriesResponse(
                    changes=messages,
                    token=self._watch_tokens.make(place, tenant, user_id),
                    consistency_token=self._consistency.make(page.position, tenant)
                    if page.position is not None
                    else "",
                )

    async def _messages(
        self, tenant_id: str, changes: Sequence[ToldChange], *, include_content: bool
    ) -> list[change_pb2.MemoryChange]:
        if not changes:
            return []
        await self._audit.note({each.user_id for each in changes}, timeout=CALL_SECONDS)
        shown: dict[tuple[str, UUID], Memory] = {}
        if include_content:
            shown = await self._memories(tenant_id, changes)
        messages = []
        for change in changes:
            message = change_message(change)
            if change.memory_id is not None:
                memory = shown.get((change.user_id, change.memory_id))
                if memory is not None:
                    message.memory.CopyFrom(memory_message(memory))
            messages.append(message)
        return messages

    async def _memories(
        self, tenant_id: str, changes: Sequence[ToldChange]
    ) -> dict[tuple[str, UUID], Memory]:
        """The memories as they are now, without what is untold or cannot be opened."""
        deadline = asyncio.get_running_loop().time() + CALL_SECONDS
        named: defaultdict[str, list[UUID]] = defaultdict(list)
        for change in changes:
            if change.memory_id is not None and change.memory_id not in named[change.user_id]:
                named[change.user_id].append(change.memory_id)
        reads = {
            user_id: memories.told_by_ids(Scope(tenant_id, user_id), ids)
            for user_id, ids in named.items()
        }
        await ask_at(self._readers.keys, deadline, *reads.values())
        shown: dict[tuple[str, UUID], Memory] = {}
        for user_id, read in reads.items():
            opener = Opener(self._keys, Scope(tenant_id, user_id), deadline=deadline)
            whole = await opener.whole(read.answer)
            shown |= {(user_id, each.memory_id): each for each in whole}
        return shown


def _parts(page: ChangePage, size: int) -> list[tuple[Sequence[ToldChange], int]]:
    """A page as messages of at most `size` changes, each with the place behind it."""
    parts: list[tuple[Sequence[ToldChange], int]] = [
        (part, part[-1].position)
        for part in (page.changes[i : i + size] for i in range(0, len(page.changes), size))
    ]
    if not parts:
        return [((), page.upto)]
    parts[-1] = (parts[-1][0], page.upto)
    return parts


def _heartbeat(checks: Checks, request: pb.WatchMemoriesRequest) -> float:
    """Seconds between two messages at most."""
    least, default, most = _HEARTBEAT_SECONDS
    if not request.HasField("heartbeat"):
        return default
    given: Duration = request.heartbeat
    if given.seconds < 0 or given.nanos < 0:
        checks.add("heartbeat", f"must not be negative; leave it out for {default:g} s")
        return default
    return min(max(given.seconds + given.nanos / 1e9, least), most)
