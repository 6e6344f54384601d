"""What a reply may change: by a genuine quote, within caps, and never without a way back.

Contract "What the language model is asked"; faults.md rows 29, 34, 66, 67, 71, 75 and 83.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import maintenance_service_pb2, memory_pb2, profile_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import forget, save, statement, stream
from tests.e2e.learning import ALL_STATUSES, altering, learn, memories, replies, shown, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, cited, memory, quoting, value

MARCH = datetime(2026, 3, 2, 9, tzinfo=UTC)
STATUS = memory_pb2.MemoryStatus
TEA, GREEN = "Ana drinks tea.", "Ana drinks green tea at four."


async def by_content(services: Services) -> dict[str, memory_pb2.Memory]:
    return {m.content: m for m in await memories(services, statuses=ALL_STATUSES)}


async def roll_back(services: Services, **source: Any) -> dict[str, int]:
    request = maintenance_service_pb2.RollbackSourceRequest(user_id="ana", **source)
    return dict((await services.maintenance.RollbackSource(request)).counts)


async def profile_of(services: Services) -> profile_pb2.Profile:
    profile: profile_pb2.Profile = (await ask(services, "GetProfile")).profile
    return profile


def facts_of(profile: profile_pb2.Profile) -> Any:
    return json_format.MessageToDict(profile.facts)


# --- refusals ------------------------------------------------------------------------------------


async def test_row_71_a_refused_change_is_named_and_its_words_stand_beside(
    modelled: Services,
) -> None:
    seven = "Ana drinks 7 cups of green tea."
    cases = {
        "refused_without_quote": ("", ["m1"], GREEN),
        "refused_quote": ("You like green tea", ["m1"], GREEN),
        "refused_without_source": ("at 4", ["m9"], GREEN),
        "refused_digits": ("green tea, at four", ["m1"], seven),
    }
    for why, (quote, sources, content) in cases.items():
        update = {"id": "e1", "content": content, "source_message_ids": sources, "quote": quote}
        tea = memory(TEA, confidence="high")
        modelled.model.script = replies({"green": {"updated_memories": [update]}, "tea": [tea]})
        await learn(modelled, talk("I drink tea", user=why))
        lines = ("Green tea, at four, is what I have now", ("assistant", "You like green tea"))
        later = talk(*lines, user=why, conversation="c2")
        preview = await ask(modelled, "PreviewExtraction", transcript=later)
        result = await learn(modelled, later)
        held = {m.content: m for m in await memories(modelled, user=why, statuses=ALL_STATUSES)}
        for each in (preview.result, result):
            (refusal,) = each.refusals
            assert (refusal.item, refusal.reason) == ("updated_memories[0]", why)
            assert (each.counts[why], each.memories_updated) == (1, 0)
            assert "tea" not in refusal.subject
        assert (held[TEA].version, held[TEA].status) == (1, STATUS.MEMORY_STATUS_ACTIVE)
        assert refusal.memory_id == held[TEA].id
        beside = held[content]
        if why == "refused_without_source":
            # Of whose words it is, nothing says: it waits.
            assert beside.status == STATUS.MEMORY_STATUS_QUARANTINED
            continue
        assert beside.status == STATUS.MEMORY_STATUS_ACTIVE, why
        assert beside.confidence == memory_pb2.CONFIDENCE_LOW
        assert list(beside.may_replace) == [held[TEA].id]


async def test_row_67_what_the_user_brings_up_to_date_is_what_the_user_said(
    modelled: Services,
) -> None:
    black, late = "Ana drinks black tea at four.", "Ana drinks green tea at five."
    milk = "Ana drinks tea with milk at four."
    modelled.model.script = replies(
        {
            words: altering("updated_memories", "tea", words, *sources, content=content)
            for words, content, *sources in (
                ("at four now", GREEN),
                ("black tea it is", black),
                ("make it five", late),
                ("all right then", milk, "m1", "m2"),
            )
        }
        | {"I have tea": [memory(TEA, ["m2", "m1"])]}
    )
    user_said, assistant_said = memory_pb2.ORIGIN_USER, memory_pb2.ORIGIN_ASSISTANT
    for day, (line, content, origin) in enumerate(
        (
            (("assistant", "Do you drink tea?"), TEA, assistant_said),
            (("assistant", "With milk, at four"), milk, assistant_said),
            ("Green tea, at four now", GREEN, user_said),
            (("assistant", "So black tea it is"), GREEN, user_said),
            ("Sorry, make it five", late, user_said),
        )
    ):
        agreed = {TEA: ("I have tea", line), milk: (line, "all right then")}
        lines = agreed.get(content, (line,))
        said = talk(*lines, conversation=f"c{day}", at=MARCH + timedelta(days=day))
        await learn(modelled, said)
        held = next(m for m in await memories(modelled) if m.content == content)
        assert held.origin == origin, line
    for taken, content, origin in (("c4", GREEN, user_said), ("c2", milk, assistant_said)):
        await roll_back(modelled, conversation_id=taken)
        (held,) = await memories(modelled)
        assert (held.content, held.origin) == (content, origin), taken


# --- what is equal, forgotten, and passes --------------------------------------------------------


@pytest.mark.parametrize(("role", "forgets"), [("user", True), ("assistant", False)])
async def test_what_the_user_asks_to_forget_is_forgotten(
    role: str, forgets: bool, modelled: Services
) -> None:
    modelled.model.script = replies(
        {
            "forget": altering("forgotten_memories", "tea", "please forget the tea", "m1"),
            "tea": [memory(TEA)],
        }
    )
    await learn(modelled, talk("tea", at=MARCH))
    asked = talk((role, "Oh, please forget the tea"), conversation="c2", at=MARCH + timedelta(1))
    result = await learn(modelled, asked)
    assert result.counts["forgotten"] == forgets
    (known,) = await memories(modelled, statuses=ALL_STATUSES)
    assert (known.status == STATUS.MEMORY_STATUS_FORGOTTEN) == forgets
    if not forgets:
        assert [each.reason for each in result.refusals] == ["refused_by_trust"]
        return
    # Said before the request, or repeated by the assistant, it stays forgotten.
    modelled.model.script = replies({"tea": [memory(TEA)]})
    for words in (talk("tea", conversation="c3", at=MARCH), talk(("assistant", "tea"))):
        words.conversation_id, words.messages[0].id = "c4", f"late{words.messages[0].role}"
        again = await learn(modelled, words)
        assert again.counts["kept_forgotten"] == 1
    await roll_back(modelled, conversation_id="c2")
    assert [m.content for m in await memories(modelled)] == [TEA]


@pytest.mark.parametrize(
    ("role", "quote", "refused"),
    [
        ("user", "keep that to yourself", ""),
        ("assistant", "keep that to yourself", "refused_by_trust"),
    ],
)
async def test_what_is_told_and_to_be_forgotten_at_once_is_never_told(
    role: str, quote: str, refused: str, modelled: Services
) -> None:
    secret = "Ana failed pharmacology."
    modelled.model.script = replies(
        {
            "failed": {
                "new_memories": [memory(TEA), memory(secret, ["m2"])],
                "forgotten_memories": [
                    {"new": 1, "source_message_ids": ["m2"], "quote": quote},
                    {"new": 2, "source_message_ids": ["m2"], "quote": quote},
                ],
            },
            "again": [memory(secret)],
        }
    )
    told = talk("I drink tea", (role, "Pharmacology: failed. Keep that to yourself!"), at=MARCH)
    result = await learn(modelled, told)
    by_words = await by_content(modelled)
    kept = by_words[secret]
    context = await ask(modelled, "GetContext", query="Did I fail pharmacology?")
    assert "tea" in context.prompt_block
    if refused:
        assert [each.reason for each in result.refusals] == ["refused_shape", refused]
        assert kept.status == STATUS.MEMORY_STATUS_ACTIVE
        return
    assert (result.memories_created, result.counts["forgotten_new"]) == (1, 1)
    assert (kept.status, kept.version) == (STATUS.MEMORY_STATUS_FORGOTTEN, 1)
    assert by_words[TEA].status == STATUS.MEMORY_STATUS_ACTIVE
    assert "harmacology" not in context.prompt_block
    # Nothing older brings it back; the person does, by a call.
    again = await learn(modelled, talk("again", conversation="c2", at=MARCH))
    assert again.counts["kept_forgotten"] == 1
    await ask(modelled, "RestoreMemory", memory_id=kept.id)
    assert {m.content for m in await memories(modelled)} == {TEA, secret}
    await roll_back(modelled, conversation_id="c1")
    assert {m.content for m in await memories(modelled)} == {secret}
    await roll_back(modelled, conversation_id="c2")
    assert not await memories(modelled)


async def test_what_passes_with_a_day_passes_at_its_end_where_the_user_is(
    modelled: Services,
) -> None:
    exam = memory("Ana has an exam on 2026-03-03", expires_at="2026-03-03")
    modelled.model.script = lambda _: ChatAnswer.of(new_memories=[exam | {"valid_from": "2026-02"}])
    transcript = talk("exam tomorrow, I know since February", at=MARCH)
    transcript.time_zone = "America/Los_Angeles"
    result = await learn(modelled, transcript)
    assert (result.memories_created, result.dropped_items) == (1, 0)
    (known,) = await memories(modelled, statuses=ALL_STATUSES)
    assert known.expires_at.ToDatetime() == datetime(2026, 3, 4, 8)
    assert known.valid_from.ToDatetime() == datetime(2026, 2, 1, 8)
    told = await ask(modelled, "GetContext", query="Which exam?", as_of=MARCH)
    assert "(2026-02-01 until 2026-03-03)" in told.prompt_block


@pytest.mark.parametrize(
    ("later", "expires"),
    [
        ("in Dubai until 2026-05", datetime(2026, 6, 1)),
        ("in Dubai until 2026-05-10, at first until 2026-03", datetime(2026, 5, 11)),
        ("in Dubai, nobody knows how long", None),
        # The day of the message is no end.
        ("still in Dubai as of 2026-03-11", None),
        ("Ana is in Dubai until 2026-03-11", datetime(2026, 3, 12)),
        # Nobody reads such a day here.
        ("in Dubai until 15.05.2026", datetime(2026, 4, 1)),
    ],
)
async def test_what_lasts_longer_is_told_after_the_end_that_was_named_first(
    later: str, expires: datetime | None, modelled: Services
) -> None:
    first = memory("Ana is in Dubai until 2026-03", expires_at="2026-03")
    modelled.model.script = replies(
        {
            "longer": altering("updated_memories", "Dubai", "stay longer", content=later),
            "Dubai": [first],
        }
    )
    await learn(modelled, talk("I am in Dubai this month", at=MARCH))
    (known,) = await memories(modelled, statuses=ALL_STATUSES)
    assert known.expires_at.ToDatetime() == datetime(2026, 4, 1)
    await learn(modelled, talk("I stay longer", conversation="c2", at=MARCH + timedelta(days=9)))
    (known,) = await memories(modelled, statuses=ALL_STATUSES)
    found = known.expires_at.ToDatetime() if known.HasField("expires_at") else None
    assert (known.content, found) == (later, expires)


@pytest.mark.parametrize(
    ("day", "after"), [("2026-03-15", 1), ("2026-03-15", 7), ("9999-12-31", 1)]
)
async def test_what_is_put_off_expires_as_much_later_and_a_rollback_takes_that_back(
    day: str, after: int, modelled: Services
) -> None:
    """Or never, if that would be after the end of time. It may be told after the first day."""
    exam = memory("Ana has an exam on 2026-03-05", expires_at="2026-03-05")
    put_off, quote = f"Ana has an exam on {day}", f"it is on {day}"
    modelled.model.script = replies(
        {
            quote: altering("updated_memories", "exam", quote, content=put_off),
            "once more": [memory(put_off)],
            "exam": [exam],
        }
    )
    first = datetime(2026, 3, 6)
    then = first + timedelta(days=10) if day == "2026-03-15" else None
    await learn(modelled, talk("an exam in three days", at=MARCH))
    later = talk(f"{quote}, sorry", conversation="c2", at=MARCH + timedelta(days=after))
    again = talk("once more: then", conversation="c3", at=MARCH + timedelta(days=after + 1))
    await learn(modelled, later, again)
    for content, expires, source in (
        (put_off, then, "c3"), (put_off, then, "c2"), (exam["content"], first, ""),
    ):  # fmt: skip
        (known,) = await memories(modelled, statuses=ALL_STATUSES)
        found = known.expires_at.ToDatetime() if known.HasField("expires_at") else None
        assert (known.content, found) == (content, expires)
        if source:
            await roll_back(modelled, conversation_id=source)


async def test_b9_what_would_have_expired_before_it_was_said_stays_without_an_expiry(
    modelled: Services,
) -> None:
    """A model's mistake, such as the year before, would make a memory that nobody is ever told."""
    times = {
        "a year before": "2025-03-03",
        "the day before": "2026-03-01",
        "the same moment": "2026-03-02T09:00:00Z",
        "the same day": "2026-03-02",
        "no time": "soon",
    }
    items = [memory(f"Ana has an exam, {words}", expires_at=at) for words, at in times.items()]
    modelled.model.script = lambda _: ChatAnswer.of(new_memories=items)
    transcript = talk("I have exams", at=MARCH)
    previewed = await ask(modelled, "PreviewExtraction", transcript=transcript)
    result = await learn(modelled, transcript)
    for named in (previewed.result.refusals, result.refusals):
        assert [(each.item, each.reason) for each in named] == [
            (f"new_memories[{place}].expires_at", "refused_expired") for place in range(3)
        ]
    assert (result.counts["refused_expired"], result.dropped_items) == (3, 4)
    told = {each.content.partition(", ")[2] for each in await memories(modelled)}
    assert told == set(times) - {"the same day"}


# --- the profile ---------------------------------------------------------------------------------

HOME, BOATS = "facts.personal.location", "current_projects"


async def test_b12_a_value_is_replaced_ended_and_told_with_its_source(modelled: Services) -> None:
    said = {
        "I live in Lisbon, and build a boat and a house": [
            value(HOME, "Lisbon", "I live in Lisbon"),
            value(BOATS, ["boat", "house"], "build a boat and a house"),
            value("summary", "A builder in Lisbon.", "build a boat"),
        ],
        "I moved to Porto; the boat is done": [
            value(HOME, "Porto", "I moved to Porto"),
            value(BOATS, "boat", "the boat is done", ended=True),
        ],
        "nowhere at home any more": [
            value(HOME, None, "nowhere at home", ended=True),
            value("summary", "A builder on the road.", "nowhere at home"),
        ],
    }

    def changing(changes: list[dict[str, Any]]) -> Callable[[ChatRequest], dict[str, Any]]:
        return lambda _: {"profile_changes": changes}

    modelled.model.script = replies({words: changing(changes) for words, changes in said.items()})
    found = []
    for day, words in enumerate(said):
        at = MARCH + timedelta(days=day)
        result = await learn(modelled, talk(words, conversation=f"c{day}", at=at))
        assert result.dropped_items == 0
        found.append(await profile_of(modelled))
    assert [(facts_of(p), list(p.current_projects), p.summary) for p in found] == [
        ({"personal": {"location": "Lisbon"}}, ["boat", "house"], "A builder in Lisbon."),
        ({"personal": {"location": "Porto"}}, ["house"], "A builder in Lisbon."),
        ({}, ["house"], "A builder on the road."),
    ]
    porto = found[1].sources[HOME]
    found_in = (porto.conversation_id, porto.message_id, porto.quote)
    assert found_in == ("c1", "c1-1", "I moved to Porto")
    assert porto.said_at.ToDatetime(UTC) == MARCH + timedelta(days=1)
    assert f"{BOATS}#boat" in found[0].sources
    assert f"{BOATS}#boat" not in found[1].sources
    await roll_back(modelled, conversation_id="c2")
    assert facts_of(await profile_of(modelled)) == {"personal": {"location": "Porto"}}
    # What was said before the latest statement changes nothing.
    modelled.model.script = replies({"Faro": {"profile_changes": [value(HOME, "Faro", "Faro")]}})
    await learn(modelled, talk("Faro", conversation="late", at=MARCH - timedelta(days=1)))
    assert facts_of(await profile_of(modelled)) == {"personal": {"location": "Porto"}}


async def test_of_several_people_only_the_one_without_a_name_fills_the_profile(
    modelled: Services,
) -> None:
    """In a chat of WhatsApp everybody writes in the role of the user; a name marks the others.

    A team that shares an account has names alone.
    """
    home = value(HOME, "Oslo", "I live in Oslo", "m2")
    changes = [home, value(BOATS, ["boat"], "I build a boat")]
    modelled.model.script = replies({"Oslo": {"profile_changes": changes}})
    chat = talk("I build a boat", "I live in Oslo", at=MARCH)
    chat.messages[1].name = "Eva"
    result = await learn(modelled, chat)
    assert [each.reason for each in result.refusals] == ["refused_speaker"]
    profile = await profile_of(modelled)
    assert (facts_of(profile), list(profile.current_projects)) == ({}, ["boat"])
    # The same holds for a later batch, in which nobody else speaks; "User" is no name.
    for name, words, reasons in (
        ("Eva", "I live in Oslo", ["refused_speaker"]),
        ("User", "I left my home in Bergen", []),
    ):
        home = value(HOME, words.split()[-1], words)
        modelled.model.script = replies({words: {"profile_changes": [home]}})
        later = talk(words, at=MARCH)
        later.messages[0].id, later.messages[0].name = f"{name} later", name
        result = await learn(modelled, later)
        assert [each.reason for each in result.refusals] == reasons, name
    team = talk("I build a boat", "I live in Oslo", conversation="team", at=MARCH)
    for message, name in zip(team.messages, ("Lea", "Eva"), strict=True):
        message.name = name
    both = talk("I live in Oslo", "I live in Oslo", conversation="both", at=MARCH)
    both.messages[0].name = "Eva"
    modelled.model.script = replies(
        {"Oslo": {"profile_changes": [value(HOME, "Oslo", "I live in Oslo", "m1", "m2")]}}
    )
    assert not (await learn(modelled, both)).refusals
    modelled.model.script = replies({"Oslo": {"profile_changes": changes}})
    assert not (await learn(modelled, team)).refusals
    assert facts_of(await profile_of(modelled)) == {"personal": {"location": "Oslo"}}


@pytest.mark.parametrize("how", ["contradicted", "renamed", "waits", "by hand", "rolled back"])
async def test_a_value_goes_with_the_memory_that_it_rests_on(how: str, modelled: Services) -> None:
    lives = "Ana lives in Lisbon."

    modelled.model.script = replies(
        {
            "I left": altering("contradicted_memories", "Lisbon", "I left"),
            "Lisbon": {
                "new_memories": [memory(lives, ["m1", "m2"] if how == "waits" else ["m1"])],
                "profile_changes": [
                    value(HOME, "Lisbon", "I live in Lisbon"),
                    value("facts.personal.name", "Ana", "I am Ana"),
                ],
            },
        }
    )
    await learn(modelled, talk("I am Ana, I live in Lisbon", ("assistant", "Ah, Lisbon"), at=MARCH))
    (known,) = await memories(modelled)
    profile = await profile_of(modelled)
    assert list(profile.sources[HOME].memory_ids) == [known.id]
    if how == "by hand":
        await forget(modelled, known.id)
    elif how == "rolled back":
        await roll_back(modelled, conversation_id="c1")
    elif how == "waits":
        porto = (await ask(modelled, "SaveMemory", content="Ana lives in Porto.")).memory
        await ask(
            modelled,
            "SaveMemory",
            content=lives,
            replaces=[porto.id],
            origin=memory_pb2.ORIGIN_ASSISTANT,
        )
    elif how == "renamed":
        await ask(modelled, "SaveMemory", content="Anne lives in Lisbon!", replaces=[known.id])
        assert facts_of(await profile_of(modelled)) == {"personal": {"location": "Lisbon"}}
        return
    else:
        later = talk("I left", conversation="c2", at=MARCH + timedelta(days=1))
        await learn(modelled, later)
    after = await profile_of(modelled)
    assert "location" not in facts_of(after).get("personal", {})
    assert HOME not in after.sources
    # The memory held the name too, which outlasts what is over, and nothing that is to be hidden.
    assert ("name" in facts_of(after).get("personal", {})) == (how == "contradicted")


async def test_a_value_is_known_by_what_the_reply_changes(modelled: Services) -> None:
    """Who corrects a number, or says that a plan is done, does not say the rest again."""
    phone, number = "facts.personal.phone", "Ana's number is 0412 555 730"
    flat, there = "Ana moves to 12 Clyde Street, Glasgow, in May", "12 Clyde Street, Glasgow"
    modelled.model.script = replies(
        {
            "703": lambda r: {
                "updated_memories": [
                    change(shown(r, "number"), "ends in 703", content=number[:-3] + "703")
                ],
                "profile_changes": [value(phone, "0412 555 703", "ends in 703")],
            },
            "We moved": lambda r: {
                "new_memories": [memory(f"Ana lives at {there}")],
                "contradicted_memories": [change(shown(r, "Clyde"), "We moved", by=0)],
                "profile_changes": [
                    value(HOME, there, "We moved"),
                    value("facts.personal.desk", "7", "We moved"),
                ],
            },
            "0412": {
                "new_memories": [memory(number), memory(flat)],
                "profile_changes": [value(phone, "0412 555 730", "my number is 0412")],
            },
        }
    )
    first = "my number is 0412 555 730, and in May I move to 12 Clyde Street, Glasgow"
    found = []
    for day, words in enumerate((first, "No, it ends in 703", "We moved!")):
        at = MARCH + timedelta(days=day)
        result = await learn(modelled, talk(words, conversation=f"c{day}", at=at))
        found.append(
            ([each.item for each in result.refusals], facts_of(await profile_of(modelled)))
        )
    assert found[1:] == [
        ([], {"personal": {"phone": "0412 555 703"}}),
        # What neither a message nor such a memory says stays out.
        (["profile_changes[1]"], {"personal": {"phone": "0412 555 703", "location": there}}),
    ]


# --- what we told, and what the model is shown ---------------------------------------------------


@pytest.mark.parametrize(
    ("role", "cut_off", "brackets"),
    [
        ("user", True, "<>"),
        ("assistant", False, "<>"),
        ("tool", False, (r"\u003c", r"\u003e")),
        ("tool", False, (r"\u003C", r"\u003E")),
        ("tool", False, (r"\\u003c", r"\\u003e")),
        ("tool", True, ("&lt;", "&gt;")),
        ("tool", False, ("&#60;", "&#62;")),
    ],
    ids=["user", "assistant", "JSON of Go", "JSON of .NET", "JSON in JSON", "HTML", "numbers"],
)
async def test_row_83_our_own_block_teaches_nothing_whoever_sends_it(
    role: str, cut_off: bool, brackets: Sequence[str], modelled: Services
) -> None:
    """A backend may put it into a message: by then it may be stale, or forgotten."""
    await save(modelled, TEA)
    context = await ask(modelled, "GetContext", query="tea", min_relevance=0)
    block = context.prompt_block
    assert TEA in block

    def script(request: ChatRequest) -> ChatAnswer:
        (mine,) = [line for line in request.messages if "BEFORE" in line.content]
        assert "tea" not in mine.content
        assert "hitherto" not in mine.content
        assert ("AFTER" in mine.content) != cut_off
        known = [each.local_id for each in request.memories]
        # Words of the block are no evidence, even for a model that saw them.
        return ChatAnswer.of(
            contradicted_memories=[change(each, TEA, mine.local_id) for each in known],
            profile_changes=[value("facts.personal.drink", "tea", TEA, mine.local_id)],
        )

    modelled.model.script = script
    given = block[: block.index("<<<end")] if cut_off else f"{block}\nAFTER"
    given = given.replace("<", brackets[0]).replace(">", brackets[1])
    fed = talk((role, f"BEFORE\n{given}"), "what about my tea?", conversation="c2")
    result = await learn(modelled, fed)
    assert {each.reason for each in result.refusals} == {"refused_quote"}
    assert [m.content for m in await memories(modelled)] == [TEA]


async def test_the_prompt_marks_what_is_special_and_names_weekdays(modelled: Services) -> None:
    modelled.model.script = replies(
        {
            "I ran": altering("achieved_goals", "marathon", "I ran"),
            "marathon": [
                memory("Ana wants to run a marathon", type="goal"),
                memory("Ana may like running clubs", ["m2"]),
            ],
        }
    )
    await learn(
        modelled,
        talk("I want to run a marathon", ("assistant", "Try a running club"), at=MARCH),
        talk("I ran the marathon", conversation="c2", at=MARCH + timedelta(days=1)),
        talk("marathon running clubs?", conversation="c3", at=MARCH + timedelta(days=2)),
    )
    asked = modelled.model.chat_requests[-1]
    marks = {known.content: known.marks for known in asked.memories}
    assert marks["Ana wants to run a marathon"] == ("achieved",)
    assert marks["Ana may like running clubs"] == ("said by the assistant",)
    assert "[m1] user Wed 2026-03-04T09:00:00+00:00: " in asked.user


# --- a thousand lies, and the way back -----------------------------------------------------------

PEOPLE = [f"Ana knows person number {n}" for n in range(40)]
LIES, EACH = 27, 40
"""Replies, and the changes that each proposes: more than a thousand."""
LYING = ("", "nobody of them is a friend any more", "Ana knows person number")
"""What they quote: nothing, what nobody said, and what is known."""


def lie(quote: str, request: ChatRequest) -> ChatAnswer:
    """Everything shown is wrong, in one of the ways in which models and attackers are."""
    known = [each.local_id for each in request.memories]
    half = len(known) // 2
    evidence = cited(quote)
    return ChatAnswer.of(
        updated_memories=[
            {"id": each, "content": "Ana is alone", **evidence} for each in known[:half]
        ],
        contradicted_memories=[{"id": each, "by": None, **evidence} for each in known[half:]],
        profile_changes=[value("facts.personal.friends", "none", quote)],
    )


async def test_r2_a_thousand_changes_without_a_genuine_quote_change_nothing(
    modelled: Services,
) -> None:
    await stream(modelled, map(statement, PEOPLE))
    before = await by_content(modelled)
    proposed = 0
    for number in range(LIES):
        modelled.model.script = partial(lie, LYING[number % len(LYING)])
        result = await learn(modelled, talk(f"what a day {number}", conversation=f"lie{number}"))
        proposed += sum(result.counts[each] for each in ("refused_quote", "refused_without_quote"))
        assert result.memories_contradicted == 0
        assert result.profile_version == 0
    assert proposed >= LIES * EACH
    after = await by_content(modelled)
    for content, known in before.items():
        assert (after[content].status, after[content].version) == (known.status, known.version)
    # The words stand beside, once, and name what they may replace.
    assert set(after) == {*before, "Ana is alone"}


async def test_r2_what_genuine_quotes_change_stays_within_caps_and_one_call_restores_it(
    modelled: Services,
) -> None:
    await stream(modelled, map(statement, PEOPLE))
    before = await by_content(modelled)
    since = Timestamp()
    since.GetCurrentTime()

    def script(request: ChatRequest) -> ChatAnswer:
        """Five changes a reply, which no cap of a job refuses."""
        known = [each.local_id for each in request.memories][:5]
        said = request.messages[0].content
        return quoting(
            request,
            updated_memories=[
                {"id": each, "content": f"Ana fears {each} of {said}"} for each in known[:2]
            ],
            contradicted_memories=[{"id": each, "by": None} for each in known[2:4]],
            # What the reply itself states is no change of what is known.
            new_memories=[memory(f"Ana met {said}")],
            forgotten_memories=[*({"id": each} for each in known[4:]), {"new": 0}],
            profile_changes=[{"path": "facts.personal.mood", "value": said}],
        )

    modelled.model.script = script
    changed = refused = 0
    for number in range(8):
        said = talk(f"e1 e2 e3 e4 e5 hate {number}", conversation=f"lie{number}")
        result = await learn(modelled, said)
        changed += result.memories_contradicted + result.memories_updated
        changed += result.counts["forgotten"]
        refused += result.counts["refused_over_daily_cap"]
    assert (changed, refused) == (20, 20)
    requests: list[dict[str, Any]] = [
        {"model": "gpt-4o-mini"},
        {"prompt_version": "extraction_4"},
        {"since": since},
    ]
    told = [await roll_back(modelled, dry_run=True, **request) for request in requests]
    assert told[0] == told[1] == told[2]
    assert await roll_back(modelled, **requests[-1]) == told[0]
    after = {m.content: m for m in await memories(modelled)}
    assert set(after) == set(before)
    for content, known in before.items():
        assert (after[content].id, after[content].HasField("valid_to")) == (known.id, False)
    assert facts_of(await profile_of(modelled)) == {}
    for request in requests:
        assert set((await roll_back(modelled, **request)).values()) == {0}
