"""Contexts for the tests of the prompt block: document 002's nine lines, one with everything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_shared.models import Entity, Memory, Preference, Profile, Summary

FENCE_ID = "0123456789abcdef"
SAID = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)


def memory(number: int, type: str, content: str, **fields: Any) -> Memory:
    values: dict[str, Any] = {
        "memory_id": UUID(int=number),
        "user_id": "u1",
        "type": type,
        "content": content,
        "importance": 0.8,
        "confidence": "high",
        "source": "conversation",
        "origin": "user",
        "status": "active",
        "valid_from": SAID,
        "created_at": SAID,
        "updated_at": SAID,
    }
    return Memory(**(values | fields))


def summary(conversation_id: str, title: str, text: str) -> Summary:
    return Summary(
        conversation_id=conversation_id,
        user_id="u1",
        title=title,
        summary=text,
        outcome="ongoing",
        message_count=4,
        created_at=SAID,
        updated_at=SAID,
    )


def entity(number: int, name: str, type: str, email: str | None = None) -> Entity:
    metadata = {} if email is None else {"email": email}
    return Entity(UUID(int=number), name, type, mention_count=3, metadata=metadata)


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


def full_context() -> PromptContext:
    """Something of everything, with duplicates between the lists."""
    docker = memory(3, "problem", "Docker Compose không khởi động được Redis 🐳")
    sorting = summary("c1", "Sắp xếp mảng", "Đã học cách sort array trong Python.")
    return PromptContext(
        profile=Profile(
            user_id="u1",
            department="Platform",
            summary="Kỹ sư phần mềm ở Hà Nội.",
            current_projects=["Hitherto"],
            preferences={"editor": "vim", "communication_style": "direct"},
            frequent_intents=["debugging"],
            facts={
                "personal": {
                    "name": "Thanh",
                    "role": "Developer",
                    "org": "Acme",
                    "timezone": "Asia/Ho_Chi_Minh",
                    "location": "Hà Nội",
                    "occupation": "Engineer",
                    "contacts": [{"name": "Lan", "email": "lan@example.com"}, "Minh"],
                    "notes": "Works at night",
                    "pets": {"dogs": 2.0},
                },
                "preferences": {
                    "languages": ["Vietnamese"],
                    "topics": ["Docker"],
                    "communication_style": "chatty",
                },
                "technical_context": {
                    "current_projects": ["hitherto", "Chatbot"],
                    "frameworks": ["FastAPI"],
                    "programming_languages": ["Python"],
                },
                "climate": "warm",
            },
            version=3,
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
    )
