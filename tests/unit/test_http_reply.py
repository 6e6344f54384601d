"""Replies of HTTP/1.1, however their bytes are cut, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitherto_shared.embeddings.http_reply import MAX_HEAD_BYTES, NotHttp, Reply

LIMIT = 40
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsunrise"
WHOLE = {
    "length": PLAIN,
    "doubled length": b"HTTP/1.1 200\r\ncontent-length: 7\r\nContent-Length:7 \r\n\r\nsunrise",
    "chunks": CHUNKED + b"3;a=b\r\nsun\r\n004\r\nrise\r\n0\r\nX: y\r\n\r\n",
    "after hints": b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + PLAIN,
    "kept by an old server": PLAIN.replace(b"1.1 200 OK", b"1.0 200 OK\r\nConnection: keep-alive"),
}


def reply(*pieces: bytes, limit: int = LIMIT, tunnel: bool = False) -> Reply:
    made = Reply(lambda _: limit, tunnel=tunnel)
    for piece in pieces:
        made.feed(piece)
    return made


@pytest.mark.parametrize("raw", WHOLE.values(), ids=WHOLE)
@given(st.data())
def test_a_reply_is_the_same_however_it_is_cut(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(1, len(raw) - 1), max_size=9)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    found = reply(*pieces)

    assert (found.status, found.body, found.complete) == (200, b"sunrise", True)
    assert found.reusable
    assert not found.cut_off


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\nno", b"no"),
    ],
)
def test_short_replies_leave_the_connection(raw: bytes, body: bytes) -> None:
    found = reply(raw)
    assert (found.complete, found.reusable, found.body) == (True, True, body)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n") + b"2\r\nok\r\n0\r\n\r\n",
    ],
    ids=["says so", "old server", "more than was asked for", "two lengths"],
)
def test_a_connection_that_cannot_be_trusted_is_not_used_again(raw: bytes) -> None:
    found = reply(raw)
    assert (found.complete, found.reusable, found.body) == (True, False, b"ok")


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    found = reply(b"HTTP/1.1 200 OK\r\n\r\nsun", b"rise")
    assert not found.complete
    found.end()
    assert (found.complete, found.reusable, found.body) == (True, False, b"sunrise")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 41\r\n\r\n" + b"x" * 41,
        CHUNKED + b"20\r\n" + b"x" * 32 + b"\r\n20\r\n" + b"x" * 9,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 41,
    ],
    ids=["announced", "error page", "chunks", "without length"],
)
def test_what_is_longer_than_allowed_is_cut_off(raw: bytes) -> None:
    found = reply(raw)
    assert (found.complete, found.cut_off, found.reusable) == (True, True, False)
    assert len(found.body) <= LIMIT


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 20", WHOLE["length"][:-1], WHOLE["chunks"][:-1]])
def test_an_end_in_the_middle_is_no_reply(raw: bytes) -> None:
    found = reply(raw)
    with pytest.raises(NotHttp):
        found.end()


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        CHUNKED + b"-3\r\n",
        CHUNKED + b"3\r\nsunXY",
        CHUNKED + b"1" * 2_000,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD_BYTES,
    ],
)
def test_what_is_no_reply_is_refused(raw: bytes) -> None:
    with pytest.raises(NotHttp):
        reply(raw)


def test_a_tunnel_has_no_body() -> None:
    assert reply(b"HTTP/1.1 200 Connection established\r\n\r\n", tunnel=True).complete
    refused = reply(b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno", tunnel=True)
    assert (refused.status, refused.body) == (407, b"no")
