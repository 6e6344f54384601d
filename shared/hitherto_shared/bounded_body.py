"""Reads an HTTP reply of bounded size; bytes are counted as they arrive."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from hitherto_shared.model_api import ModelMisbehaved
from hitherto_shared.model_server import oversize, unasked_encoding

# The encodings requested from servers, which `zlib` alone can decompress within a limit.
ACCEPT_ENCODING = "gzip"

_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_PIECE = 256 * 1024


class BoundedStream(httpx2.AsyncByteStream):
    """A response body that decompresses itself and ends at a number of bytes.

    The limit applies to the bytes on the wire and to the decompressed ones: a small compressed body
    may expand to gigabytes, and one that expands to nothing may never end.

    Args:
        inner: The body as it arrives.
        limit: Maximum bytes to pass on.
        cut: End silently at the limit; otherwise raise `ModelMisbehaved` there.
        compressed: The body is gzip or zlib.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, *, limit: int, cut: bool, compressed: bool
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._cut = cut
        self._compressed = compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield plain bytes until the end of the body or the limit."""
        decoder = zlib.decompressobj(_GZIP_OR_ZLIB) if self._compressed else None
        wire = plain = 0
        source = aiter(self._inner)
        try:
            async for raw in source:
                wire += len(raw)
                for piece in (raw,) if decoder is None else _unfold(decoder, raw):
                    plain += len(piece)
                    if plain > self._limit:
                        break
                    yield piece
                if max(wire, plain) > self._limit:
                    if self._cut:
                        return
                    raise oversize(self._limit)
        finally:
            # Leaving early must release the connection now, and not at the next garbage collection.
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    async def aclose(self) -> None:
        """Close the body underneath."""
        await self._inner.aclose()


def bound(response: httpx2.Response, *, limit: int, cut: bool) -> None:
    """Limit the body of `response`, which must be unread, to `limit` plain bytes.

    Raises:
        ModelMisbehaved: The reply announces a larger body, or an encoding that was not requested.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    compressed = encoding in _COMPRESSED
    if not compressed and encoding not in ("identity", ""):
        raise unasked_encoding()
    announced = response.headers.get("content-length", "")
    if not cut and announced.isdecimal() and int(announced[:20]) > limit:
        raise oversize(limit)
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise TypeError("only asynchronous responses can be bounded")
    # The stream decodes itself, so the client must not do so a second time.
    response.headers.pop("content-encoding", None)
    response.stream = BoundedStream(response.stream, limit=limit, cut=cut, compressed=compressed)


def _unfold(decoder: zlib._Decompress, raw: bytes) -> Iterator[bytes]:
    """Yield the decompressed bytes of one chunk, a bounded piece at a time."""
    try:
        piece = decoder.decompress(raw, _PIECE)
        while piece:
            yield piece
            piece = decoder.decompress(decoder.unconsumed_tail, _PIECE)
    except zlib.error:
        raise ModelMisbehaved("the model server's reply is not the gzip it claims to be") from None
