"""Page tokens: opaque, sealed, and valid only for the same request by the same tenant."""

from __future__ import annotations

import hashlib
from typing import Any

from google.protobuf.message import Message

from hitherto_shared.sealing import BrokenToken, Sealer
from hitherto_shared.validation import Checks

_NOT_PART_OF_THE_QUESTION = ("page_token", "page_size", "consistency_token")


class PageTokens:
    """Creates and opens the page tokens of one deployment."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "page")

    def bind(self, tenant_id: str, request: Message) -> PageCursor:
        """The pages of one request."""
        question = type(request)()
        question.CopyFrom(request)
        for name in _NOT_PART_OF_THE_QUESTION:
            question.ClearField(name)
        digest = hashlib.sha256(question.SerializeToString(deterministic=True)).hexdigest()
        return PageCursor(self._sealer, [tenant_id, request.DESCRIPTOR.full_name, digest])


class PageCursor:
    """Where a list continues, for one request of one tenant."""

    def __init__(self, sealer: Sealer, bound_to: list[str]) -> None:
        self._sealer = sealer
        self._bound_to = bound_to

    def open(self, checks: Checks, token: str) -> Any:
        """The cursor in `token`, or None at the start."""
        if not token:
            return None
        try:
            return self._sealer.open(token, self._bound_to)["c"]
        except BrokenToken:
            checks.add(
                "page_token",
                "is not the next_page_token of a call with the same filters: send it unchanged, "
                "or leave it out to start again",
                reason="INVALID_PAGE_TOKEN",
            )
            return None

    def seal(self, cursor: Any) -> str:
        """The token for `cursor`; None means the end and gives an empty token."""
        return "" if cursor is None else self._sealer.seal({"c": cursor}, self._bound_to)
