"""Contexts for the tests of the prompt block: document 002's nine lines, one with everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto_retrieval.render.block import render
from hitherto_retrieval.render.context import Block, PromptContext, RelevantItem
from hitherto_retrieval.render.tokens import counter
from hitherto_shared.models import (
    Entity,
    Memory,
    Message,
    Preference,
    Profile,
    SourceRef,
    Summary,
)

FENCE_ID = "0123456789abcdef"
SAID = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
TODAY = date(2026, 11, 22)
COUNT = counter("o200k_base")
CUSTOM = "{{profile}}\n{{memories}}\n{{relevant}}\n{{conversations}}\n{{entities}}"


def memory(number: int, type: str, content: str, **fields: Any) -> Memory:
    values: dict[str, Any] = {
        "memory_id": UUID(int=number), "user_id": "u1", "type": type, "content": content,
        "importance": 0.8, "confidence": "high", "source": "conversation", "origin": "user",
        "status": "active", "valid_from": SAID, "created_at": SAID, "updated_at": SAID, **fields,
    }  # fmt: skip
    return Memory(**values)


def summary(conversation_id: str, title: str, text: str) -> Summary:
    return Summary(
        conversation_id=conversation_id, user_id="u1", title=title, summary=text,
        outcome="ongoing", message_count=4, created_at=SAID, updated_at=SAID,
    )  # fmt: skip


def entity(number: int, name: str, type: str, email: str | None = None) -> Entity:
    metadata = {} if email is None else {"email": email}
    return Entity(UUID(int=number), name, type, mention_count=3, metadata=metadata)


def message(number: int, text: str, role: str = "user", name: str = "Bao") -> Message:
    """One of four conversations, each a day after the one before."""
    at = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)
    return Message(f"c{number % 4}", f"m{number}", role, name, text, at)


def of_message(number: int) -> SourceRef:
    return SourceRef(f"c{number % 4}", f"m{number}")


def heard(
    number: int, text: str, score: float, role: str = "user", name: str = "Bao"
) -> RelevantItem:
    """Such a message as a result."""
    return RelevantItem.of_message(message(number, text, role, name), score)


def fact(number: int, text: str, score: float, instead: str = "", **fields: Any) -> RelevantItem:
    """A memory as a result, with what holds in its place."""
    return RelevantItem.of_memory(memory(number, "fact", text, **fields), score, instead)


def found(*items: RelevantItem, **others: Any) -> PromptContext:
    """What a question found, and no end of relevance."""
    return PromptContext(
        **{"relevant": items, "asked": True, "today": TODAY, "stops": False, **others}
    )


def rendered(
    context: PromptContext,
    template: str = "about_the_user",
    max_tokens: int = 4_000,
    custom: str = CUSTOM,
    **how: Any,
) -> Block:
    how = {"fence_id": FENCE_ID, "count": COUNT, **how}
    custom = custom if template == "custom" else ""
    return render(context, template, max_tokens, custom_template=custom, **how)


def told(*items: RelevantItem, **others: Any) -> str:
    """The block for a question that found these."""
    return rendered(found(*items, **others)).text


def lines(context: PromptContext, template: str = "about_the_user") -> list[str]:
    return rendered(context, template).text.splitlines()


NINE_LINES: Sequence[tuple[str, str]] = (
    ("preference", "Dislikes corporate buzzwords. Prefers direct, punchy writing."),
    ("preference", 'Wants cards in "executive" style with 2-page max length.'),
    ("goal", "Targeting VP of Engineering at Series B startups (50-200 people)."),
    ("goal", 'Also open to "Head of Platform" roles at larger companies if comp > $300k.'),
    ("fact", "Previously Director at Stripe (2019-2023), Senior EM at Google (2015-2019)."),
    ("decision", 'Chose "executive" card template over "detailed" on 2026-03-15.'),
    ("context", "Actively interviewing. Has 2 final rounds scheduled this week."),
    ("feedback", 'Said the last About section draft was "too formal." Prefers conversational.'),
    ("personal", "Has a dog named Max. Appreciates humor in professional settings."),
)


def learnt(type: str, key: str, value: Any, confidence: float) -> Preference:
    """A preference that was observed twice."""
    return Preference(type, key, value, confidence, 2, datetime(2026, 1, 1, tzinfo=UTC))


def nine_line_context() -> PromptContext:
    return PromptContext(
        memories=[memory(n, type, text) for n, (type, text) in enumerate(NINE_LINES, start=1)]
    )


FACTS: dict[str, Any] = {
    "personal": {
        "name": "Thanh", "role": "Developer", "org": "Acme", "timezone": "Asia/Ho_Chi_Minh",
        "location": "Hà Nội", "occupation": "Engineer", "notes": "Works at night",
        "contacts": [{"name": "Lan", "email": "lan@example.com"}, "Minh"], "pets": {"dogs": 2.0},
    },
    "preferences": {
        "languages": ["Vietnamese"], "topics": ["Docker"], "communication_style": "chatty",
    },
    "technical_context": {
        "current_projects": ["hitherto", "Chatbot"], "frameworks": ["FastAPI"],
        "programming_languages": ["Python"],
    },
    "climate": "warm",
}  # fmt: skip


def full_context() -> PromptContext:
    """Something of everything, with duplicates between the lists."""
    docker = memory(3, "problem", "Docker Compose không khởi động được Redis 🐳")
    sorting = summary("c1", "Sắp xếp mảng", "Đã học cách sort array trong Python.")
    return PromptContext(
        profile=Profile(
            user_id="u1", department="Platform", summary="Kỹ sư phần mềm ở Hà Nội.",
            current_projects=["Hitherto"], frequent_intents=["debugging"], facts=FACTS, version=3,
            preferences={"editor": "vim", "communication_style": "direct"},
        ),
        memories=[
            memory(1, "fact", "Lives in Hà Nội since 2024."),
            memory(2, "goal", "Run a marathon.", status="achieved"),
            docker,
        ],
        relevant=[
            RelevantItem.of_memory(docker),
            RelevantItem("gmail", "Q4 Budget", "Increase marketing by 15%."),
            RelevantItem.of_summary(sorting),
            RelevantItem.of_summary(summary("c9", "Old talk", "About Redis.")),
        ],
        conversations=[sorting, summary("c2", "", "Talked about 猫.")],
        entities=[
            entity(1, "Sarah Johnson", "person", "sarah@company.com"),
            entity(2, "Q4 Budget", "project"),
        ],
        preferences=[
            learnt("interaction", "message_style", "brief", 0.7),
            learnt("x", "editor", "emacs", 0.9),
            learnt("topics", "tasks", True, 0.6),
        ],
    )  # fmt: skip


def much() -> PromptContext:
    """More than fits: sixty memories and messages that fit less and less, and general lists."""
    items = []
    for number in range(60):
        score = 0.9 - number / 100
        if number % 3:
            text = f"Message {number} of many, with some words about it."
            items.append(heard(number, text, score))
        else:
            items.append(fact(number + 1, f"Found statement {number} that answers.", score))
    others = [memory(500 + n, "fact", f"Important in general {n}.") for n in range(20)]
    asked: dict[str, Any] = {"asked": True, "today": TODAY, "named": 1, "ongoing": "c1"}
    return replace(full_context(), memories=others, relevant=items, **asked)
