"""The lines of an export: a row as JSON, with its sealed values opened."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.failed_attempts import UnusableReplies
from hitherto_shared.encryption.failures import BrokenSeal
from hitherto_shared.encryption.rows import BY_TABLE, REPLY
from hitherto_shared.encryption.user_key import UserKey, version_of
from hitherto_shared.models import Scope
from hitherto_shared.sealing import BrokenToken

_ANY = 2**32
_REPLIES = "unusable_replies"


class ExportLines:
    """Formats the lines of one user's export.

    Attributes:
        scope: The user.
        key: The user's data key; None: there is none, and what it has sealed is lost.
        replies: Opens replies that were sealed with the installation's secret.
    """

    def __init__(self, scope: Scope, key: UserKey | None, replies: UnusableReplies) -> None:
        self.scope = scope
        self._key = key
        self._replies = replies

    def line(self, table: str, row: str, sealed: bytes | None) -> bytes:
        """One line; with `"lost":true` if part of the row can no longer be opened.

        Args:
            table: The table of the row.
            row: The row as a JSON object, without its sealed values.
            sealed: The sealed values.
        """
        if sealed is not None:
            found = json.loads(row)
            return _line(table, *self._opened(table, found, sealed))
        if table == _REPLIES:
            return _line(table, *self._reply(json.loads(row)))
        return _line(table, row)

    def _opened(
        self, table: str, found: dict[str, Any], sealed: bytes
    ) -> tuple[dict[str, Any], bool]:
        if self._key is None:
            return found, True
        kind = BY_TABLE[table]
        if version_of(sealed) > found.get(kind.version, _ANY):
            # It belongs to a later version, and was moved here.
            return found, True
        try:
            columns = kind.open(self._key, sealed, *(found[name] for name in kind.ids))
        except BrokenSeal:
            return found, True
        return found | columns, False

    def _reply(self, found: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """An unusable reply, with the model's text in clear."""
        job_id, sealed = UUID(found["job_id"]), found["sealed_reply"]
        try:
            if not found["of_user_key"]:
                found["reply"] = self._replies.open(self.scope, job_id, sealed)
                return found, False
            if self._key is None:
                return found, True
            found |= REPLY.open(self._key, base64.b64decode(sealed), job_id, found["claim_no"])
        except (BrokenToken, BrokenSeal):
            # The secret or key with which it was sealed no longer exists.
            return found, True
        return found, False


def _line(table: str, row: str | dict[str, Any], lost: bool = False) -> bytes:
    if not isinstance(row, str):
        row = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate is not UTF-8; JSON escapes it just as Python does.
    mark = ',"lost":true' if lost else ""
    return f'{{"table":{json.dumps(table)},"row":{row}{mark}}}\n'.encode(
        "utf-8", "backslashreplace"
    )
