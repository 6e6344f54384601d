"""Parses an HTTP/1.1 reply as it arrives, piece by piece, within limits.

Only what a reply to a POST can contain is supported: a head, and a body by its length, in chunks,
or up to the end of the connection. Each byte is parsed once, however they are split.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

MAX_HEAD_BYTES = 32 * 1024
_MAX_CHUNK_LINE = 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_WITHOUT_BODY = (204, 304)

MostBytes = Callable[[int], int]
"""Maximum bytes of a body to read, by the status of the reply."""


class NotHttp(OSError):
    """The bytes are not a reply; nothing of them is quoted."""


class _Next(Enum):
    """What the next bytes are."""

    HEAD = 0
    LENGTH = 1
    CHUNK_LINE = 2
    CHUNK = 3
    TRAILER = 4
    UNTIL_THE_END = 5
    NOTHING = 6


class Reply:
    """One reply.

    Args:
        most: Maximum bytes of the body to read; `cut_off` if there is more.
        tunnel: Whether it answers CONNECT, so that a success has no body.

    Attributes:
        status: 0 until the head is there.
        headers: By name in lower case; of several of one name, all, with commas between.
        begun: Whether any byte has arrived.
        complete: Whether it has ended.
        cut_off: Whether more than the maximum arrived or was announced.
        reusable: Whether the next reply may follow on the same connection.
    """

    def __init__(self, most: MostBytes, *, tunnel: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun = self.complete = self.cut_off = self.reusable = False
        self._most = most
        self._tunnel = tunnel
        self._limit = 0
        self._keeps = False
        self._next = _Next.HEAD
        self._unread = bytearray()
        self._looked_at = 0
        self._left = 0
        self._body = bytearray()

    @property
    def body(self) -> bytes:
        """The body as far as read."""
        return bytes(self._body)

    def feed(self, data: bytes) -> bool:
        """Parse further bytes; returns whether the reply is complete.

        Raises:
            NotHttp: They belong to no reply.
        """
        self.begun = True
        self._unread += data
        while not self.complete and self._step():
            pass
        if self.complete and self._unread:
            # What follows was not requested.
            self.reusable = False
        return self.complete

    def end(self) -> None:
        """Note the end of the connection.

        Raises:
            NotHttp: It came in the middle of the reply.
        """
        if self._next is _Next.UNTIL_THE_END:
            self._finish(reusable=False)
        elif not self.complete:
            raise NotHttp

    def _step(self) -> bool:
        """Parse one more part of the reply; False waits for more bytes."""
        if self._next is _Next.HEAD:
            return self._take_head()
        if self._next is _Next.CHUNK_LINE:
            return self._take_chunk_line()
        if self._next is _Next.TRAILER:
            return self._take_trailer()
        return self._take_body()

    def _take_head(self) -> bool:
        head = self._until(b"\r\n\r\n", MAX_HEAD_BYTES)
        if head is None:
            return False
        first, *lines = head.split(b"\r\n")
        found = _STATUS.fullmatch(first)
        if found is None:
            raise NotHttp
        status = int(found[2])
        headers: dict[str, str] = {}
        for line in lines:
            header = _HEADER_LINE.fullmatch(line)
            if header is None:
                raise NotHttp
            name = header[1].decode("ascii").lower()
            value = header[2].decode("latin-1").strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if status < 200:
            # Such as 103: the reply is still to come. A protocol switch was not requested.
            if status == 101:
                raise NotHttp
            return True
        self.status, self.headers = status, headers
        self._limit = self._most(status)
        said = headers.get("connection", "").lower()
        self._prepare_body(keeps="close" not in said if found[1] == b"1" else "keep-alive" in said)
        return True

    def _prepare_body(self, *, keeps: bool) -> None:
        self._keeps = keeps
        coding = self.headers.get("transfer-encoding", "").strip().lower()
        announced = self.headers.get("content-length")
        if (self._tunnel and self.status < 300) or self.status in _WITHOUT_BODY:
            self._finish(reusable=keeps)
        elif coding:
            if coding != "chunked":
                raise NotHttp
            # With both, an intermediary may have interpreted it differently.
            self._keeps = keeps and announced is None
            self._next = _Next.CHUNK_LINE
        elif announced is not None:
            # Proxies may have doubled it.
            (length, *others) = {each.strip() for each in announced.split(",")}
            if others or not _LENGTH.fullmatch(length):
                raise NotHttp
            self._left = int(length)
            self._next = _Next.LENGTH
            self.cut_off = self._left > self._limit
            if not self._left:
                self._finish(reusable=keeps)
            elif self.cut_off and self.status < 300:
                self._finish(reusable=False)
        else:
            self._next = _Next.UNTIL_THE_END

    def _take_chunk_line(self) -> bool:
        line = self._until(b"\r\n", _MAX_CHUNK_LINE)
        if line is None:
            return False
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise NotHttp
        self._left = int(found[1], 16)
        self._next = _Next.CHUNK if self._left else _Next.TRAILER
        return True

    def _take_trailer(self) -> bool:
        line = self._until(b"\r\n", MAX_HEAD_BYTES)
        if line is None:
            return False
        if not line:
            self._finish(reusable=self._keeps)
        return True

    def _take_body(self) -> bool:
        if self._next is _Next.CHUNK and not self._left:
            if len(self._unread) < 2:
                return False
            if self._unread[:2] != b"\r\n":
                raise NotHttp
            del self._unread[:2]
            self._next = _Next.CHUNK_LINE
            return True
        if not self._unread:
            return False
        bounded = self._next is not _Next.UNTIL_THE_END
        taken = min(len(self._unread), self._left) if bounded else len(self._unread)
        kept = min(taken, self._limit - len(self._body))
        self._body += self._unread[:kept]
        del self._unread[:taken]
        if bounded:
            self._left -= taken
        if kept < taken:
            self.cut_off = True
            self._finish(reusable=False)
        elif self._next is _Next.LENGTH and not self._left:
            self._finish(reusable=self._keeps)
        return True

    def _until(self, mark: bytes, most: int) -> bytes | None:
        """The bytes before `mark`, which are consumed with it; None if it has not arrived yet."""
        at = self._unread.find(mark, max(0, self._looked_at - len(mark)))
        if at < 0:
            self._looked_at = len(self._unread)
            if self._looked_at > most:
                raise NotHttp
            return None
        if at > most:
            raise NotHttp
        self._looked_at = 0
        found = bytes(self._unread[:at])
        del self._unread[: at + len(mark)]
        return found

    def _finish(self, *, reusable: bool) -> None:
        self.complete = True
        self.reusable = reusable
        self._next = _Next.NOTHING
