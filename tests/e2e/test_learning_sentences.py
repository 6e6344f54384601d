"""What people said, and a model reported rightly (shared/reviews/learning.md).

Every sentence was once refused: by a word that a list lacked, in one of eight languages. Each is
learnt by its quote, stands beside what is known without one, and is taken back by one call. More of
them, of forty people: unit/pipeline/test_evidence.py.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import json_format

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import ALL_STATUSES, learn, memories, talk
from tests.e2e.methods import ask
from tests.scripted_model import ChatAnswer, ScriptedModel
from tests.scripted_model.answers import change, memory, value

SAID_AT = datetime(2026, 9, 5, 9, tzinfo=UTC)
ACTIVE = memory_pb2.MEMORY_STATUS_ACTIVE

ENDS = {
    "en style": (
        "The user prefers detailed explanations.",
        "From now on quick summaries please, I never read your walls of text.",
        "From now on quick summaries please", "The user prefers quick summaries.",
    ),
    "en therapy": (
        "Evan is swimming until his physical therapy starts.",
        "PT has helped some, I am glad about it", "PT has helped some",
        "Evan does physical therapy, which has helped.",
    ),
    "en lead": ("Tim is our team lead.", "Tim left, Anna is our team lead now", "Tim left", None),
    "de smoking": (
        "Der Nutzer raucht.", "Ich habe seit drei Monaten keine Zigarette mehr angefasst!",
        "keine Zigarette mehr angefasst", "Der Nutzer raucht nicht mehr.",
    ),
    "vi pay": (
        "Lương làm thêm của Linh ở The Coffee House là 25 nghìn một giờ.",
        "Mình nghỉ làm ở The Coffee House rồi", "nghỉ làm ở The Coffee House",
        "Linh đã nghỉ làm ở The Coffee House.",
    ),
    "ja running": (
        "毎朝ジョギングをしている", "膝を痛めたので、もう走っていません。",
        "もう走っていません", None,
    ),
    "ar shifts": (
        "سلمى تعمل من الأحد إلى الخميس", "والدوام صار نهاريًا من السبت إلى الأربعاء",
        "صار نهاريًا من السبت إلى الأربعاء", "دوام سلمى نهاري من السبت إلى الأربعاء",
    ),
    "zh home": ("用户住在北京", "我上个月搬到了上海", "搬到了上海", "用户住在上海"),
    "es diet": (
        "Lucía come carne.", "Ya no como carne, desde enero.", "Ya no como carne",
        "Lucía no come carne.",
    ),
    "hi home": (
        "कबीर दिल्ली में रहता है", "मैं अब पुणे में रहता हूँ", "अब पुणे में रहता हूँ",
        "कबीर पुणे में रहता है",
    ),
}  # fmt: skip
"""What was known, what was said, the words of it that end it, and what holds now."""

UPDATES = {
    "en exam": (
        "The user is learning Spanish.",
        "I passed my B1 Spanish exam on Friday! Aiming for B2 now.",
        "I passed my B1 Spanish exam on Friday",
        "The user passed the B1 Spanish exam on 2026-09-04 and is aiming for B2.",
    ),
    "en rename": (
        "Rowan's side project is a Go binary called Pigeonhole.",
        "btw we renamed Pigeonhole, it's Kestrel now", "we renamed Pigeonhole",
        "Rowan's side project is a Go binary called Kestrel (formerly Pigeonhole).",
    ),
    "de dose": (
        "Der Nutzer nimmt Atorvastatin 20 mg.", "Der Arzt hat Atorvastatin auf 10mg gesenkt",
        "auf 10mg gesenkt", "Der Nutzer nimmt Atorvastatin 10 mg.",
    ),
    "vi lessons": (
        "Người dùng học tiếng Nhật.", "Mỗi tối mình học tiếng Nhật 2 tiếng, tháng 12 thi N3",
        "học tiếng Nhật 2 tiếng",
        "Người dùng học tiếng Nhật, mỗi tối 2 tiếng, thi N3 vào tháng 12.",
    ),
    "ja work": (
        "遥はデザイナーだ", "大阪のゲーム会社でUIデザイナーをしています",
        "ゲーム会社でUIデザイナー", "遥は大阪のゲーム会社のUIデザイナーだ",
    ),
}  # fmt: skip
"""What was known, what was said more exactly, the words of it, and the new wording."""


PROFILE: dict[str, tuple[str, str, str, Any]] = {
    "en bakery": (
        "I run a small bakery and do the books", "I run a small bakery",
        "facts.personal.occupation", "Owner of a small bakery who handles the accounting",
    ),
    "en ci": (
        "Our CI takes 40 minutes, it's killing me", "Our CI takes 40 minutes",
        "facts.technical_context.challenges", ["Slow CI pipeline (40 minutes)"],
    ),
    "en units": (
        "please use metric units and a 24 hour clock", "use metric units", "preferences.units",
        "metric",
    ),
    "de milk": (
        "vertragen tue ich nun mal keine Laktose", "keine Laktose",
        "facts.personal.unverträglichkeit", "Laktose",
    ),
    "de summary": (
        "Mit 67 singe ich im Kirchenchor in Göttingen", "singe ich im Kirchenchor", "summary",
        "Hartmut, 67 Jahre, Rentner, wohnt in Göttingen. Er singt im Kirchenchor.",
    ),
    "es food": (
        "la leche ni verla", "la leche ni verla", "facts.personal.alimentos a evitar", "leche",
    ),
    "ja job": (
        "今はUIデザイナーです", "今はUIデザイナー", "facts.personal.occupation",
        "大阪のゲーム会社のUIデザイナー",
    ),
}  # fmt: skip


async def told(
    services: Services, model: ScriptedModel, known: str, said: str, reply: Any, user: str = "ana"
) -> tuple[Any, dict[str, memory_pb2.Memory]]:
    """Learn what is known, then what is said; the job's result and all memories by content."""
    model.script = lambda request: ChatAnswer.of(
        **(reply if request.messages[0].content == said else {"new_memories": [memory(known)]})
    )
    await learn(services, talk(known, user=user, at=datetime(2026, 8, 1, tzinfo=UTC)))
    result = await learn(services, talk(said, user=user, conversation="c2", at=SAID_AT))
    held = await memories(services, user=user, statuses=ALL_STATUSES)
    return result, {m.content: m for m in held}


async def take_back(services: Services, conversation: str = "c2") -> None:
    await ask(services, "RollbackSource", conversation_id=conversation)


@pytest.mark.parametrize("name", ENDS)
async def test_what_changed_ends_and_comes_back_by_one_call(name: str, modelled: Services) -> None:
    known, said, quote, now = ENDS[name]
    reply = {
        "new_memories": [memory(now)] if now else [],
        "contradicted_memories": [change("e1", quote, by=0 if now else None)],
    }
    result, held = await told(modelled, modelled.model, known, said, reply)
    assert (result.memories_contradicted, result.dropped_items) == (1, 0)
    assert not result.refusals
    old = held[known]
    assert old.status == memory_pb2.MEMORY_STATUS_CONTRADICTED
    assert old.valid_to.ToDatetime(UTC) == SAID_AT
    assert [m.content for m in held.values() if m.status == ACTIVE] == ([now] if now else [])
    assert old.superseded_by == (held[now].id if now else "")
    await take_back(modelled)
    assert [m.content for m in await memories(modelled)] == [known]


@pytest.mark.parametrize("name", UPDATES)
async def test_what_was_said_more_exactly_is_the_next_version(
    name: str, modelled: Services
) -> None:
    known, said, quote, now = UPDATES[name]
    reply = {"updated_memories": [change("e1", quote, content=now)]}
    result, held = await told(modelled, modelled.model, known, said, reply)
    assert (result.counts["refined"], result.dropped_items) == (1, 0)
    (only,) = held.values()
    assert (only.content, only.version, only.status) == (now, 2, ACTIVE)
    assert quote in [each.quote for each in only.evidence]
    await take_back(modelled)
    assert [m.content for m in await memories(modelled)] == [known]


@pytest.mark.parametrize("name", PROFILE)
async def test_a_value_of_the_profile_may_be_in_the_models_words(
    name: str, modelled: Services
) -> None:
    said, quote, path, given = PROFILE[name]
    modelled.model.script = lambda _: ChatAnswer.of(profile_changes=[value(path, given, quote)])
    result = await learn(modelled, talk(said, at=SAID_AT))
    assert (result.profile_version, result.dropped_items) == (1, 0)
    found = await ask(modelled, "GetProfile")
    held: Any = json_format.MessageToDict(found.profile, preserving_proto_field_name=True)
    for key in path.split(".", 2):
        held = held[key]
    assert held == given
    sources = found.profile.sources
    assert {each.quote for each in sources.values()} == {quote}
    assert {each.said_at.ToDatetime(UTC) for each in sources.values()} == {SAID_AT}
    await take_back(modelled, "c1")
    after = await ask(modelled, "GetProfile")
    assert not after.profile.sources
    assert given not in json_format.MessageToDict(after.profile).values()
