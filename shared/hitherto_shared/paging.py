"""Page tokens: opaque, sealed, and valid only for the same request by the same tenant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from hitherto_shared.sealing import BrokenToken, Sealer
from hitherto_shared.validation import Checks

_NOT_PART_OF_THE_QUESTION = ("page_token", "page_size", "consistency_token")


class PageTokens:
    """Creates and opens the page tokens of one deployment."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "page")

    def open(
        self, checks: Checks, tenant_id: str, request: Any, *, default: int = 10, maximum: int = 200
    ) -> PageCursor:
        """The page that a request wants: `default` items unless it says how many."""
        question = type(request)()
        question.CopyFrom(request)
        for name in _NOT_PART_OF_THE_QUESTION:
            question.ClearField(name)
        digest = hashlib.sha256(question.SerializeToString(deterministic=True)).hexdigest()
        bound_to = [tenant_id, request.DESCRIPTOR.full_name, digest]
        size = checks.limit("page_size", request.page_size, default=default, maximum=maximum)
        after = None
        if request.page_token:
            try:
                after = self._sealer.open(request.page_token, bound_to)["c"]
            except BrokenToken:
                checks.add(
                    "page_token",
                    "is not the next_page_token of a call with the same filters: send it "
                    "unchanged, or leave it out to start again",
                    reason="INVALID_PAGE_TOKEN",
                )
        return PageCursor(size, after, self._sealer, bound_to)


@dataclass(frozen=True, slots=True)
class PageCursor:
    """A page of a list: its most items, and the cursor it begins after, None at the start."""

    size: int
    after: Any
    _sealer: Sealer
    _bound_to: list[str]

    @property
    def bounds(self) -> dict[str, Any]:
        """`after` and `limit`, as the functions that read a page take them."""
        return {"after": self.after, "limit": self.size}

    def seal(self, cursor: Any) -> str:
        """The token for `cursor`; None means the end and gives an empty token."""
        return "" if cursor is None else self._sealer.seal({"c": cursor}, self._bound_to)
