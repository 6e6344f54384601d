"""What the console's pages say when the services refuse or fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from hitherto_client.console.target import ConsoleTarget
from tests.e2e.consoles import Visitor, served, visitor
from tests.unit.client.fake_services import Failure, Fakes

Code = grpc.StatusCode


@pytest.fixture
async def person(fakes: Fakes) -> AsyncIterator[Visitor]:
    """Somebody who has signed in."""
    async with served(ConsoleTarget()) as url, visitor(url) as signed_in:
        await signed_in.sign_in("some-key")
        assert signed_in.status == 200, signed_in.text
        yield signed_in


async def test_failures_are_pages(person: Visitor, fakes: Fakes) -> None:
    cases: list[tuple[Failure, int, str]] = [
        (Failure(Code.PERMISSION_DENIED, "SCOPE_MISSING"), 403, "lacks the scope"),
        (Failure(Code.PERMISSION_DENIED, "USER_NOT_ALLOWED"), 403, "does not reach this person"),
        (Failure(Code.FAILED_PRECONDITION, "ENCRYPTION_NOT_CONFIGURED"), 409, "It did not work"),
        (Failure(Code.RESOURCE_EXHAUSTED, "RATE_LIMITED"), 429, "Wait a moment"),
        (Failure(Code.UNAVAILABLE, "DATABASE_UNAVAILABLE"), 503, "cannot be reached"),
        (Failure(Code.DEADLINE_EXCEEDED), 504, "did not answer in time"),
        (Failure(Code.INTERNAL, "INTERNAL"), 502, "The services failed"),
        (Failure(Code.UNKNOWN), 502, "The services failed"),
        (
            Failure(Code.INVALID_ARGUMENT, "INVALID_FIELD", violations=(("tags[0]", "too <b>"),)),
            422,
            "tags[0] : too <b>",
        ),
    ]
    for failure, status, told in cases:
        fakes.recorder.fail("ListMemories", failure)
        await person.open("/memories?user=ana")
        assert person.status == status, failure
        assert told in person.text, failure
        assert "<b>" not in person.page, failure
        assert "ana" in person.text, failure
        assert "Sign out" in person.text, failure


async def test_a_part_of_a_page_is_replaced_by_its_failure(person: Visitor, fakes: Fakes) -> None:
    fakes.recorder.fail("SearchMemories", Failure(Code.UNAVAILABLE, "DATABASE_UNAVAILABLE"))
    headers = {"hx-request": "true", "hx-target": "results"}
    reply = await person.http.get("/memories?user=ana&q=tea", headers=headers)
    assert reply.status_code == 503
    assert '<div id="results"' in reply.text


async def test_a_credential_that_is_over_ends_the_session(person: Visitor, fakes: Fakes) -> None:
    over = Failure(Code.UNAUTHENTICATED, "CREDENTIAL_INVALID")
    fakes.recorder.fail("ListMemories", over)
    await person.open("/memories?user=ana")
    assert "/sign-in?next=%2Fmemories%3Fuser%3Dana" in person.url
    await person.open("/timeline?user=ana")
    assert "/sign-in" in person.url


async def test_scripts_are_sent_to_the_sign_in_as_a_whole(fakes: Fakes) -> None:
    async with served(ConsoleTarget()) as url, visitor(url) as stranger:
        reply = await stranger.http.get("/memories?user=ana", headers={"hx-request": "true"})
    assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/sign-in")


async def test_a_fault_of_the_console_is_a_page_with_all_protection(
    person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise RuntimeError("a fault with <secrets>")

    monkeypatch.setattr("hitherto_client.console.visits.render", broken)
    reply = await person.http.get("/memories?user=ana")
    assert reply.status_code == 500
    assert "secrets" not in reply.text
    assert "content-security-policy" in reply.headers
