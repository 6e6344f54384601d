"""D9 around the memories: profile, summaries and entities of a moment (D1, E1)."""

from __future__ import annotations

from hitherto_retrieval.storage import conversations, people
from hitherto_retrieval.storage.moment import Moment
from hitherto_shared.database.pool import Database
from tests.integration.retrieval.moments import ANA, day
from tests.integration.retrieval.questions import answer
from tests.integration.retrieval.seed import Fact, summarise
from tests.integration.retrieval.versions import Story


async def test_summaries_that_were_written_or_talk_that_went_on_later_are_left_out(
    reader: Database, story: Story, superuser_conninfo: str
) -> None:
    await story.learn(Fact("any", created_at=day(1)))
    for name, said_at, written_at in (("a", 10, 100), ("b", 20, 200), ("c", 30, 300)):
        await summarise(superuser_conninfo, "ana", name, f"about {name}", said_at=day(said_at))
        story.write(
            "UPDATE conversation_summaries SET updated_at = %(at)s"
            " WHERE conversation_id = %(name)s",
            at=day(written_at),
            name=name,
        )
    for moment, first, limit, found in [
        (Moment(), None, 5, ["c", "b", "a"]),
        (Moment(known_at=day(200)), None, 5, ["b", "a"]),
        (Moment(known_at=day(200)), "a", 5, ["a", "b"]),
        (Moment(known_at=day(200)), "c", 1, ["b"]),
        (Moment(as_of=day(15)), None, 5, ["a"]),
        (Moment(as_of=day(25), known_at=day(150)), None, 5, ["a"]),
        (Moment(known_at=day(99)), None, 5, []),
    ]:
        asked = conversations.recent(ANA, moment=moment, first=first, limit=limit)
        summaries = await answer(reader, asked)
        assert [summary.conversation_id for summary in summaries] == found, moment


async def test_entities_are_those_met_by_then(reader: Database, story: Story) -> None:
    await story.learn(
        Fact("Rex barks", created_at=day(1), entities=["Rex"]),
        Fact("Rex and Max play", created_at=day(1), entities=["Rex", "Max"]),
    )
    story.write("UPDATE entities SET created_at = %(at)s WHERE name = 'Rex'", at=day(10))
    story.write("UPDATE entities SET created_at = %(at)s WHERE name = 'Max'", at=day(20))

    async def known(number: int, *named: str) -> list[str]:
        asked = people.known_entities(ANA, known_at=day(number), named=named, limit=5)
        return [entity.name for entity in await answer(reader, asked)]

    assert await known(9) == []
    assert await known(10) == ["Rex"]
    assert await known(20) == ["Rex", "Max"]
    assert await known(20, "max") == ["Max", "Rex"]
