"""Questions that call the user by name find what is known of the user, not the name (Q1)."""

from __future__ import annotations

from google.protobuf import json_format

from hitherto.v1 import memory_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.masks import masked
from tests.e2e.shelf import ago, fill
from tests.e2e.test_search import search
from tests.e2e.test_search_scopes import MEMORIES, MESSAGES
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Turn


async def called(services: Services, name: str) -> None:
    """Put the user's name into the profile."""
    request = pb.UpdateProfileRequest(user_id="ana")
    json_format.ParseDict({"personal": {"name": name}}, request.profile.facts)
    await services.memory.UpdateProfile(masked(request))


async def first(services: Services, query: str) -> str:
    """The text of the best memory or message."""
    best = (await search(services, query, scopes=[MEMORIES, MESSAGES])).results[0]
    return str(best.memory.content or best.message.content)


async def fill_for_maren(conninfo: str) -> None:
    await fill(
        conninfo,
        "ana",
        memories=[
            Fact("User's name is Maren.", valid_from=ago(90)),
            Fact("User's sister Ilse lives in Lyon.", valid_from=ago(80)),
            Fact("User lives in Glasgow.", valid_from=ago(20)),
            Fact("User keeps a cat called Pepper.", valid_from=ago(60)),
        ],
        conversations={
            "hello": [
                Turn("My name is Maren.", said_at=ago(90)),
                Turn("Lovely to meet you, Maren!", role="assistant", said_at=ago(90)),
                Turn("That is all for now.", said_at=ago(80)),
            ],
            # Apart from the others, so that no neighbour counts.
            "goodbye": [Turn("Have a good evening, Maren.", role="assistant", said_at=ago(80))],
        },
    )


async def test_the_name_is_no_word_to_look_for(services: Services) -> None:
    await fill_for_maren(services.conninfo)
    await called(services, "Maren Olsen")
    for question, answer in (
        ("Where does Maren live now?", "User lives in Glasgow."),
        ("In which city does Maren Olsen live at the moment?", "User lives in Glasgow."),
        ("Where does Maren's sister live?", "User's sister Ilse lives in Lyon."),
        ("What is Maren's cat called?", "User keeps a cat called Pepper."),
        ("What is Maren's name?", "name is Maren."),
        ("Maren", "name is Maren."),
    ):
        assert answer in await first(services, question), question
        # The second time the name is known before the question is embedded.
        assert answer in await first(services, question), question
    # A new one counts at once.
    await called(services, "Solveig")
    assert await first(services, "Where does Solveig live now?") == "User lives in Glasgow."
    assert "Maren" in await first(services, "Which evening did Maren have?")
