"""I6: what is learnt from the first conversations is checked, and the counts stay with the job."""

from __future__ import annotations

from typing import Any

from hitherto_shared.metrics import REGISTRY
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import learn, talk
from tests.scripted_model import ChatAnswer, ScriptedModel
from tests.scripted_model.answers import memory
from tests.waiting import eventually

SERVICE_SETTINGS = {"quality_sample": 4}
"""A sample of four conversations."""


def checks(counts: Any) -> dict[str, int]:
    """The counts of the checks, by their short names."""
    return {
        name.removeprefix("quality_"): number
        for name, number in counts.items()
        if name.startswith("quality_")
    }


def metric(check: str, outcome: str) -> float:
    labels = {"check": check, "outcome": outcome}
    return REGISTRY.get_sample_value("hitherto_quality_checks_total", labels) or 0.0


LANGUAGES = {
    "Tôi tên Thanh, tôi trồng cam ở Huế.": (
        "Người dùng trồng cam ở Huế.",
        "Người dùng làm bác sĩ từ năm 2024, đã 40 năm.",
    ),
    "أعيش في بيروت وأحب القهوة.": ("المستخدم يعيش في بيروت.", "المستخدم عمره ٣٤ سنة."),
}
"""What is said, a memory of it, and an invented one; more in unit/evaluation/."""


async def test_i6_the_first_conversations_are_checked(modelled: Services) -> None:
    """An invented memory and a repeated one are counted, in any language, until the sample ends.

    A conversation that goes on is not counted again.
    """
    before = {
        (check, outcome): metric(check, outcome)
        for check in ("grounding", "duplicate")
        for outcome in ("passed", "failed")
    }
    for number, (said, learnt) in enumerate(LANGUAGES.items()):
        modelled.model.queue(ChatAnswer.of(new_memories=[memory(each) for each in learnt]))
        result = await learn(modelled, talk(said, user=f"u{number}"))
        assert checks(result.counts) == {"checked": 2, "ungrounded": 1, "duplicate": 0}, said

    modelled.model.queue(
        ChatAnswer.of(
            new_memories=[
                memory("The user grows quinces and medlars in Faro."),
                memory("the user grows QUINCES and medlars in Faro", type="personal"),
                memory("The user owns 3 boats in Oslo."),
            ]
        )
    )
    result = await learn(modelled, talk("In Faro I grow quinces and medlars."))
    assert result.memories_created == 3
    assert checks(result.counts) == {"checked": 3, "ungrounded": 1, "duplicate": 1}
    said_before = len(LANGUAGES)
    counted = {
        ("grounding", "passed"): 2 + said_before,
        ("grounding", "failed"): 1 + said_before,
        ("duplicate", "passed"): 2 + 2 * said_before,
        ("duplicate", "failed"): 1,
    }
    # The job's end is visible before the process that committed it goes on.
    await eventually(
        lambda: {key: metric(*key) - was for key, was in before.items()} == counted,
        "the checks are counted",
    )

    modelled.model.queue(ChatAnswer.of(new_memories=[memory("The user has a cat.")]))
    continued = talk("And I have a cat.")
    continued.messages[0].id = "later"
    result = await learn(modelled, continued)
    assert (result.memories_created, checks(result.counts)) == (1, {})

    modelled.model.queue(ChatAnswer.of(new_memories=[memory("The user has two cats.")]))
    result = await learn(modelled, talk("Now I have two cats.", conversation="c2", user="bo"))
    assert checks(result.counts) == {"checked": 1, "ungrounded": 0, "duplicate": 0}

    modelled.model.queue(ChatAnswer.of(new_memories=[memory("The user owns a kiln.")]))
    result = await learn(modelled, talk("I bought bread.", conversation="c3"))
    assert (result.memories_created, checks(result.counts)) == (1, {})


async def test_i6_a_sample_of_none(start_services: StartServices, model: ScriptedModel) -> None:
    async with start_services(model, quality_sample=0) as services:
        model.queue(ChatAnswer.of(new_memories=[memory("The user has a cat.")]))
        result = await learn(services, talk("I have a cat."))
        assert (result.memories_created, checks(result.counts)) == (1, {})
