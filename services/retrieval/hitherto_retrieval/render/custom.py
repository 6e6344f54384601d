"""The caller's own template: text with placeholders, without execution."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from hitherto_retrieval.render.budget import Section
from hitherto_retrieval.render.context import PromptContext
from hitherto_retrieval.render.layouts import (
    PromptLayout,
    SectionsOfBlock,
    answering,
    answers,
    conversation_entries,
    item_entries,
    memory_entries,
    usefulness,
)
from hitherto_retrieval.render.lines import Lines, entity_entries, profile_entries, type_tag
from hitherto_retrieval.render.material import asked_material, material
from hitherto_retrieval.render.pinned import PinnedMemories

PLACEHOLDERS = ("profile", "memories", "relevant", "conversations", "entities")
MAX_TEMPLATE_CHARACTERS = 16_384

_FENCE_NAME = "hitherto:memory"
_PLACEHOLDER = re.compile(r"\{\{\s*([a-z]+)\s*\}\}")
_BRACES = re.compile(r"\{\{[^{}]{0,40}\}?\}?|\}\}")


def check_custom_template(text: str) -> str | None:
    """The fault of a template, as a sentence that says how to fix it; None if it is valid."""
    known = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        return f"must have at most {MAX_TEMPLATE_CHARACTERS} characters"
    if _FENCE_NAME in text.casefold():
        return f'must not contain "{_FENCE_NAME}": the fence around the block is added by itself'
    unknown = _BRACES.search(_PLACEHOLDER.sub(_blank_if_known, text))
    if unknown is not None:
        return f'contains "{unknown[0]}"; only {known} can be filled in'
    if _PLACEHOLDER.search(text) is None:
        return f"contains no placeholder; use at least one of {known}"
    return None


def custom_layout(
    context: PromptContext, text: str, lines: Lines
) -> tuple[PromptLayout, dict[str, Section]]:
    """The sections of the placeholders in `text`; a repeated placeholder counts twice.

    `{{memories}}` leaves out what `{{relevant}}` prints; without that placeholder it begins with
    the memories that match the current message.

    Raises:
        ValueError: The template is invalid; `check_custom_template` gives the reason beforehand.
    """
    if problem := check_custom_template(text):
        raise ValueError(f"The custom template {problem}.")
    copies = Counter(_PLACEHOLDER.findall(text))
    if context.asked:
        sections = _asked(context, lines, copies)
    else:
        shown = len(context.relevant) if copies["relevant"] else 0
        known = material(context, lines, memory_items=shown)
        sections = {
            "profile": Section(profile_entries(known.lines, lines)),
            "memories": Section.of(memory_entries(known.memories, lines)),
            "relevant": Section.of(item_entries(known.items, lines)),
            "conversations": Section.of(conversation_entries(known, lines)),
            "entities": Section(entity_entries(known.entities)),
        }
    for name, section in sections.items():
        section.copies = copies[name]
    of = SectionsOfBlock(*sections.values())
    if context.asked:
        of = of if copies["relevant"] else replace(of, items=of.memories)
        plan = answering(of, nothing=context.nothing)
    else:
        plan = usefulness(replace(of, memories=of.items, items=of.memories))
    return PromptLayout(tuple(sections.values()), plan), sections


def _asked(context: PromptContext, lines: Lines, copies: Counter[str]) -> dict[str, Section]:
    """The sections for a question; its answers are in that of memories without one for them."""
    known = asked_material(context, lines)
    answer = answers(context, known.items, lines, "", "", lambda memory: f"- {type_tag(memory)}")
    first = PinnedMemories(known, answer, lambda one: lines.memory(one, f"- {type_tag(one)}"))
    return {
        "profile": Section(profile_entries([*known.lines, *known.inferred], lines)),
        "memories": first if copies["relevant"] else answer,
        "relevant": answer if copies["relevant"] else first,
        "conversations": Section.of(conversation_entries(known, lines)),
        "entities": Section(entity_entries(known.entities)),
    }


def fixed_text(text: str) -> str:
    """The template without its placeholders, which is always printed."""
    return _PLACEHOLDER.sub("", text)


def filled(text: str, sections: dict[str, Section]) -> str:
    """The template with the kept entries, in one pass: a value is never read as a placeholder."""
    return _PLACEHOLDER.sub(lambda match: "\n".join(sections[match[1]].lines), text)


def _blank_if_known(match: re.Match[str]) -> str:
    return " " if match[1] in PLACEHOLDERS else match[0]
