"""What people said, and a model reported rightly (shared/reviews/learning.md).

Every sentence was once refused: by a word that a list lacked, in one of eight languages. Each is
learnt by its quote. That one call takes back what was learnt so: e2e/test_rollback.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.pipeline.answer_parsing import read_answer
from hitherto_extraction.pipeline.draft import Situation
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.pipeline.profile_changes import learn
from hitherto_shared.models import Profile
from tests.scripted_model.answers import change, memory, value
from tests.unit.pipeline.situations import known, situation

SAID_AT = datetime(2026, 9, 5, 9, tzinfo=UTC)

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


def told(before: str, said: str, **reply: Any) -> Situation:
    """What was known, and the reply to what was said."""
    answer = read_answer(json.dumps(reply), messages=["m1"], memories=["e1"])
    assert not answer.dropped
    found = situation(known(content=before), roles=["user"], words=said, said_at=SAID_AT)
    return replace(found, answer=answer)


def test_what_changed_ends() -> None:
    for name, (before, said, quote, now) in ENDS.items():
        ends = change("e1", quote, by=0 if now else None)
        new = [memory(now)] if now else []
        plan = make_plan(told(before, said, new_memories=new, contradicted_memories=[ends]))
        (closure,) = plan.closures
        assert (closure.after.status, closure.after.valid_to) == ("contradicted", SAID_AT), name
        made = [(each.memory_id, each.item.content, each.status) for each in plan.creations]
        assert made == ([(closure.superseded_by, now, "active")] if now else []), name
        assert not plan.refusals, name


def test_what_was_said_more_exactly_is_the_next_version() -> None:
    for name, (before, said, quote, now) in UPDATES.items():
        plan = make_plan(told(before, said, updated_memories=[change("e1", quote, content=now)]))
        (rewrite,) = plan.rewrites
        assert (rewrite.after.content, rewrite.after.version) == (now, 2), name
        assert list(plan.quotes.values()) == [quote], name
        assert (plan.creations, plan.refusals) == ([], []), name


def test_a_value_of_the_profile_may_be_in_the_models_words() -> None:
    for name, (said, quote, path, given) in PROFILE.items():
        found = told("", said, profile_changes=[value(path, given, quote)])
        learnt = learn(Profile("ana"), {}, found.answer.profile, found.witnesses, Plan())
        ((learned, evidence),) = learnt.said
        held: Any = learnt.state.profile
        for key in learned.path:
            held = held[key] if isinstance(held, dict) else getattr(held, key)
        assert held == given, name
        assert (evidence.quote, evidence.said_at) == (quote, SAID_AT), name
        assert (list(learnt.refused), learnt.dropped) == ([], 0), name
