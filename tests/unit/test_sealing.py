"""Sealed tokens: nobody but us makes them, and they open only where they were meant to."""

from __future__ import annotations

import multiprocessing
import string
from pathlib import Path

import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_shared.consistency import ConsistencyTokens, Position
from hitherto_shared.errors import InvalidRequest
from hitherto_shared.paging import PageTokens
from hitherto_shared.sealing import BrokenToken, Sealer, load_secret
from hitherto_shared.validation import Checks

SECRET = b"s" * 32


def test_a_token_opens_where_it_was_bound() -> None:
    sealer = Sealer(SECRET, "page")
    token = sealer.seal({"c": ["é", 1, None]}, ["tenant", "user"])
    assert sealer.open(token, ["tenant", "user"]) == {"c": ["é", 1, None]}
    assert token != sealer.seal({"c": ["é", 1, None]}, ["tenant", "user"])
    for elsewhere in (["tenant"], ["tenantuser"], ["tenant", "user", ""], ["user", "tenant"], []):
        with pytest.raises(BrokenToken):
            sealer.open(token, elsewhere)
    for other in (Sealer(SECRET, "consistency"), Sealer(b"t" * 32, "page")):
        with pytest.raises(BrokenToken):
            other.open(token, ["tenant", "user"])


def test_every_changed_character_breaks_a_token() -> None:
    sealer = Sealer(SECRET, "page")
    token = sealer.seal({"c": 12345678}, ["t"])
    for i in range(len(token)):
        changed = token[:i] + ("A" if token[i] != "A" else "B") + token[i + 1 :]
        with pytest.raises(BrokenToken):
            sealer.open(changed, ["t"])


def test_a_token_has_one_spelling() -> None:
    sealer = Sealer(SECRET, "page")
    # Of every length modulo 4, and with signs of both alphabets of base64.
    for payload in ("", "a", "ab", "abc") * 16:
        token = sealer.seal({"c": payload}, ["t"])
        plain = token.replace("-", "+").replace("_", "/")
        alphabet = string.ascii_letters + string.digits + "-_"
        others = {f"{token}{'=' * pad}" for pad in (1, 2, 3)}
        others |= {plain, *(token[:-1] + last for last in alphabet)} - {token}
        for other in others:
            with pytest.raises(BrokenToken):
                sealer.open(other, ["t"])
        assert sealer.open(token, ["t"]) == {"c": payload}


def test_pages_belong_to_a_question_of_a_tenant() -> None:
    pages = PageTokens(SECRET)
    request = pb.ListMemoriesRequest(user_id="ana", tags=["x"], page_size=5)
    token = pages.open(Checks(), "t", request).seal([1, "a"])
    following = pb.ListMemoriesRequest(
        user_id="ana", tags=["x"], page_size=9, page_token=token, consistency_token="z"
    )
    assert pages.open(Checks(), "t", following).after == [1, "a"]
    assert pages.open(Checks(), "t", request).after is None
    assert pages.open(Checks(), "t", request).seal(None) == ""
    others = [
        (pages, "u", following),
        (pages, "t", pb.ListMemoriesRequest(user_id="bo", tags=["x"], page_token=token)),
        (pages, "t", pb.ListMemoriesRequest(user_id="ana", page_token=token)),
        (pages, "t", pb.ListConversationsRequest(user_id="ana", page_token=token)),
        (PageTokens(b"t" * 32), "t", following),
    ]
    for tokens, tenant, other in others:
        checks = Checks()
        assert tokens.open(checks, tenant, other).after is None
        with pytest.raises(InvalidRequest) as caught:
            checks.done()
        assert caught.value.reason == "INVALID_PAGE_TOKEN"


def test_consistency_tokens_belong_to_a_tenant() -> None:
    tokens = ConsistencyTokens(SECRET)
    position = Position("0/16B3748", "00000001", "7000000000000000001")
    token = tokens.make(position, "a")
    assert tokens.open(token, "a") == position
    page = PageTokens(SECRET).open(Checks(), "a", pb.ListMemoriesRequest()).seal(1)
    for given, tenant in ((token, "b"), (token[:-2], "a"), (page, "a")):
        with pytest.raises(InvalidRequest) as caught:
            tokens.open(given, tenant)
        assert caught.value.reason == "INVALID_CONSISTENCY_TOKEN"


def test_several_consistency_tokens_count_as_the_latest() -> None:
    tokens = ConsistencyTokens(SECRET)
    places = ("0/9", "1/A", "0/FFFFFFFF")
    given = [tokens.make(Position(lsn, "00000001", "7"), "a") for lsn in places]
    assert tokens.open(" ".join(given), "a") == Position("1/A", "00000001", "7")
    # From both sides of a failover: no standby is sure to show both.
    given[-1] = tokens.make(Position("0/9", "00000002", "7"), "a")
    found = tokens.open(" ".join(given), "a")
    assert (found.database == "7", int(found.timeline, 16)) == (False, 0)
    for bad in ([*given, "x"], [*given, ""], [" "], given * 6):
        with pytest.raises(InvalidRequest) as caught:
            tokens.open(" ".join(bad), "a")
        assert caught.value.reason == "INVALID_CONSISTENCY_TOKEN"


def test_processes_that_start_together_agree_on_the_secret(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.map(load_secret, [tmp_path / "secret"] * 8)
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", ["", "abc", "zz" * 32, "ab" * 31, "\udcff"])
def test_a_file_without_a_secret_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(ValueError, match="openssl rand -hex 32"):
        load_secret(path)
    assert path.exists()


def test_what_an_earlier_release_sealed_still_opens() -> None:
    token = "xvbVvZw0h-HW6XMgiKCkmNg3G3TGkwK6tDJzuy_9W_CWCy8d9jNC"
    assert Sealer(bytes(range(32)), "page").open(token, ["acme", "ana"]) == {"after": 7}
