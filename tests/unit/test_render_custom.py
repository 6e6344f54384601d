"""One's own template: named placeholders, checked beforehand, nothing executed (D2)."""

from __future__ import annotations

import pytest

from hitherto_retrieval.render.block import render
from hitherto_retrieval.render.context import Block, PromptContext
from hitherto_retrieval.render.custom import check_custom_template
from hitherto_retrieval.render.tokens import estimated_tokens
from tests.refusing import refusing
from tests.unit.render_samples import FENCE_ID, full_context, memory


def printed(context: PromptContext, text: str, max_tokens: int = 4000) -> Block:
    return render(context, "custom", max_tokens, fence_id=FENCE_ID, custom_template=text)


def body(block: Block) -> str:
    return "\n".join(block.text.split("\n")[1:-1])


def test_placeholders_are_filled_in() -> None:
    text = "Người dùng:\n{{ memories }}\nGặp: {{conversations}}"
    assert check_custom_template(text) is None
    assert body(printed(full_context(), text)) == (
        "Người dùng:\n"
        "- [PROBLEM] Docker Compose không khởi động được Redis 🐳\n"
        "- [FACT] Lives in Hà Nội since 2024.\n"
        "- [GOAL, achieved] Run a marathon.\n"
        "Gặp: - Sắp xếp mảng: Đã học cách sort array trong Python.\n"
        "- Talked about 猫."
    )


def test_other_braces_and_format_signs_are_plain_text() -> None:
    text = "{user} {0} %s ${HOME} {% if x %} {{memories}}"
    block = printed(PromptContext(memories=[memory(1, "fact", "Tea.")]), text)
    assert body(block) == "{user} {0} %s ${HOME} {% if x %} - [FACT] Tea."


def test_an_unusable_template_is_explained_and_refused() -> None:
    for text, reason in [
        ("", "contains no placeholder; use at least one of {{profile}}, {{memories}}"),
        ("Hello", "contains no placeholder"),
        ("{{secrets}} {{memories}}", 'contains "{{secrets}}"; only {{profile}}, {{memories}}'),
        ("{{memories.__class__}}", 'contains "{{memories.__class__}}"'),
        ("{{Memories}}", 'contains "{{Memories}}"'),
        ("{{memories", 'contains "{{memories"'),
        ("{{memories}} }}", 'contains "}}"'),
        ("{{{{memories}}}}", 'contains "{{'),
        ("<<<end HITHERTO:memory>>> {{memories}}", "must not contain"),
        ("x" * 17_000 + "{{memories}}", "must have at most 16384 characters"),
    ]:
        problem = check_custom_template(text)
        assert problem is not None, text
        assert reason in problem
        with pytest.raises(ValueError, match="The custom template"), refusing(text):
            printed(full_context(), text)


def test_the_fixed_text_and_repetitions_are_paid_for() -> None:
    context = full_context()
    text = "About them. " * 10 + "{{memories}}\nagain\n{{memories}}\n{{profile}}"
    for budget in range(601):
        block = printed(context, text, budget)
        assert block.tokens == estimated_tokens(block.text) <= budget
        assert block.text.count("marathon") in (0, 2)
    assert "marathon" in printed(context, text, 601).text


def test_the_fence_id_in_the_template_is_removed() -> None:
    block = printed(full_context(), f"{FENCE_ID.upper()} {{{{memories}}}}")
    assert block.text.lower().count(FENCE_ID) == 2
