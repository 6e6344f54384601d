"""The built-in templates: their sections, order, headings and line formats.

`about_the_user` follows document 004, `what_you_know` document 002, `markdown` document 001 and
`relevant_context` document 003. All print the profile before the memories, memories that match the
current message before general ones, and no memory, conversation or entity twice. With a question,
they print what answers it (`evidence`), and of the rest what affects any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hitherto_retrieval.render.budget import Entry, Plan, Section, Step
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.evidence import AnsweringLines
from hitherto_retrieval.render.lines import (
    Lines,
    achieved_tag,
    entity_entries,
    profile_entries,
    type_tag,
)
from hitherto_retrieval.render.material import Material, asked_material, material
from hitherto_retrieval.render.pinned import FIRST_MEMORIES, PinnedMemories
from hitherto_retrieval.render.profile_lines import LEARNT, PREFERENCE, ProfileLine
from hitherto_shared.models import Memory

MAX_CONTEXT_ITEMS = 5
MAX_CONTEXT_ENTITIES = 10
"""The number of relevant items and of known entities in document 003."""

INSTRUCTIONS_HEADING = "## Instructions:"
_INSTRUCTIONS = (
    "- Personalise your answers with what is known about the user\n"
    "- Refer to past interactions when they are relevant\n"
    "- Be concise and helpful"
)

_PROFILE_SHARE = 0.5
_FIRST_ITEMS = 3

_PROFILE_FLOOR = 0.12
_PROFILE_TOKENS = 150
_ONGOING_FLOOR = 0.25
_NAMED_FLOOR = 0.05
_PINNED = 0.06
_PINNED_TOKENS = 100
"""With a question: the share of the budget that is reserved before relevance decides, for who the
user is, the ongoing conversation, the entities that the question names, and standing wishes with
what is most important; some have at most so many tokens."""
_NEAREST = 0.4
_NEAREST_TOKENS = 200
"""The same if nothing answers, for the nearest memories in place of the most important ones."""
_APART = "--- THINGS TO REMEMBER ---"
NOTHING = "Nothing was found that answers the current message."


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A template filled with entries: the lines around them, sections in print order, order of use.

    `gap` is true if a blank line precedes each heading but the first. `title` replaces the heading
    of the first section that is printed.
    """

    sections: Sequence[Section]
    plan: Plan
    opening: str = ""
    closing: str = ""
    gap: bool = False
    instructions: Section | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class SectionsOfBlock:
    """The sections that share a budget, by what they hold."""

    profile: Section
    memories: Section
    items: Section
    conversations: Section
    entities: Section
    inferred: Section = field(default_factory=lambda: Section([]))


@dataclass(frozen=True, slots=True)
class Shape:
    """How a template prints the sections.

    Attributes:
        profile: The lines of the profile.
        memory: What precedes a memory among general ones.
        answer: What precedes a memory if there is a question.
        headings: Above the profile, memories, answers, further answers, conversations, entities.
        numbered: Whether memories are numbered; with a question, what answers it.
        grouped: Whether a document that answers a question has the three lines of document 003.
    """

    profile: Callable[[Sequence[ProfileLine], Lines], list[Entry]]
    memory: Callable[[Memory], str]
    answer: Callable[[Memory], str]
    headings: tuple[str, str, str, str, str, str]
    numbered: bool = False
    grouped: bool = False

    def sections(self, context: PromptContext, lines: Lines) -> SectionsOfBlock:
        """The sections of a context."""
        about, remembered, related, further, recent, entities = self.headings
        known = asked_material(context, lines) if context.asked else material(context, lines)
        if context.asked:
            items: Section = answers(
                context,
                known.items,
                lines,
                related,
                further,
                self.answer,
                grouped=self.grouped,
                numbered=self.numbered,
            )
            # After the answers, they do not continue the profile.
            after = _APART if remembered == about else remembered
            memories: Section = PinnedMemories(
                known, items, lambda one: lines.memory(one, self.answer(one)), after
            )
        else:
            after = remembered
            items = Section.of(item_entries(known.items, lines), related)
            entries = (lines.memory(one, self.memory(one)) for one in known.memories)
            memories = Section.of(entries, after, numbered=self.numbered)
        return SectionsOfBlock(
            Section(self.profile(known.lines, lines), about),
            memories,
            items,
            Section.of(conversation_entries(known, lines), recent),
            Section(entity_entries(known.entities), entities),
            Section(self.profile(known.inferred, lines), after),
        )


def answers(
    context: PromptContext,
    items: Sequence[RelevantItem],
    lines: Lines,
    heading: str,
    further: str,
    tag: Callable[[Memory], str],
    *,
    grouped: bool = False,
    numbered: bool = False,
) -> Section:
    """The section of what answers the question, or a line that says that nothing does."""
    if not items:
        return Section([Entry("- ", NOTHING)] if context.nothing else [], heading)
    return AnsweringLines(
        items,
        lines,
        heading,
        further=further,
        tag=tag,
        grouped=grouped,
        numbered=numbered,
        context=context,
    )


def _tag_of_goals(memory: Memory) -> str:
    return f"- {achieved_tag(memory)}"


def _tag_of_all(memory: Memory) -> str:
    return f"- {type_tag(memory)}"


def _about_the_user_profile(known: Sequence[ProfileLine], lines: Lines) -> list[Entry]:
    return [lines.about_user(line, f"{line.label}: ") for line in known]


def _what_you_know_profile(known: Sequence[ProfileLine], lines: Lines) -> list[Entry]:
    labels = {PREFERENCE: "[PREFERENCE]", LEARNT: "[PREFERENCE, learnt]"}
    return [
        lines.about_user(
            line,
            f"- {labels[line.label]} " if line.label in labels else f"- [PROFILE] {line.label}: ",
        )
        for line in known
    ]


_ABOUT_THE_USER = Shape(
    profile=_about_the_user_profile,
    memory=_tag_of_goals,
    answer=_tag_of_goals,
    headings=(
        "",
        "Things to remember:",
        "Related to the current message:",
        "Also related:",
        "Recent conversations:",
        "Known entities:",
    ),
)
_WHAT_YOU_KNOW = Shape(
    profile=_what_you_know_profile,
    memory=_tag_of_all,
    answer=_tag_of_all,
    headings=(
        "--- WHAT YOU KNOW ABOUT THIS USER ---",
        "--- WHAT YOU KNOW ABOUT THIS USER ---",
        "--- RELATED TO THE CURRENT MESSAGE ---",
        "--- ALSO RELATED ---",
        "--- RECENT CONVERSATIONS ---",
        "--- KNOWN ENTITIES ---",
    ),
)
_MARKDOWN = Shape(
    profile=profile_entries,
    memory=lambda memory: achieved_tag(memory) or f"[{memory.type}] ",
    answer=lambda memory: f"- {achieved_tag(memory) or f'[{memory.type}] '}",
    headings=(
        "## About the User:",
        "## Relevant Past Interactions:",
        "## Related to the Current Message:",
        "## Also Related:",
        "## Recent Conversations:",
        "## Known Entities:",
    ),
    numbered=True,
)
_ABOUT, _PAST, _, _FURTHER, _RECENT, _ENTITIES = _MARKDOWN.headings
_MARKDOWN_ASKED = replace(
    _MARKDOWN,
    headings=(_ABOUT, "## Things to Remember:", _PAST, _FURTHER, _RECENT, _ENTITIES),
)
_RELEVANT_CONTEXT = Shape(
    profile=profile_entries,
    memory=_tag_of_all,
    answer=_tag_of_all,
    headings=(
        "## About the User:",
        "## Things to Remember:",
        "## Relevant Context:",
        "## Also Related:",
        "## Recent Conversations:",
        "## Known Entities:",
    ),
    grouped=True,
)


def about_the_user(context: PromptContext, lines: Lines) -> PromptLayout:
    """`[ABOUT THE USER]` … `[END ABOUT THE USER]` of document 004."""
    sections = _ABOUT_THE_USER.sections(context, lines)
    return _planned(context, sections, opening="[ABOUT THE USER]", closing="[END ABOUT THE USER]")


def what_you_know(context: PromptContext, lines: Lines) -> PromptLayout:
    """`--- WHAT YOU KNOW ABOUT THIS USER ---` with `- [TYPE] …` lines, of document 002."""
    layout = _planned(context, _WHAT_YOU_KNOW.sections(context, lines), gap=True)
    return replace(layout, title=_WHAT_YOU_KNOW.headings[0]) if context.asked else layout


def markdown(context: PromptContext, lines: Lines) -> PromptLayout:
    """`## About the User:` and numbered past interactions of document 001.

    With a question, these are what answers it.
    """
    shape = _MARKDOWN_ASKED if context.asked else _MARKDOWN
    instructions = Section([Entry(_INSTRUCTIONS, "")], INSTRUCTIONS_HEADING)
    sections = shape.sections(context, lines)
    return _planned(context, sections, instructions=instructions, gap=True)


def relevant_context(context: PromptContext, lines: Lines) -> PromptLayout:
    """`## Relevant Context:` with 5 items and `## Known Entities:` with 10, of document 003.

    With a question, the items are what answers it, as many as in the other templates.
    """
    if context.asked:
        return _planned(context, _RELEVANT_CONTEXT.sections(context, lines), gap=True)
    known = material(context, lines, memory_items=MAX_CONTEXT_ITEMS)
    about, remembered, related, _, recent, entities = _RELEVANT_CONTEXT.headings
    profile = Section(profile_entries(known.lines, lines), about)
    relevant = Section.of([lines.group(one) for one in known.items[:MAX_CONTEXT_ITEMS]], related)
    memories = Section.of(memory_entries(known.memories, lines), remembered)
    conversations = Section.of(conversation_entries(known, lines), recent)
    named = Section(entity_entries(known.entities[:MAX_CONTEXT_ENTITIES]), entities)
    plan: Plan = (
        Step(profile, share=_PROFILE_SHARE),
        Step(relevant, _FIRST_ITEMS),
        Step(memories, FIRST_MEMORIES),
        Step(conversations, 1),
        Step(relevant),
        Step(memories),
        Step(conversations),
        Step(named),
        Step(profile),
    )
    return PromptLayout((profile, relevant, memories, conversations, named), plan, gap=True)


def usefulness(of: SectionsOfBlock) -> Plan:
    """The order in which a budget is spent without a question.

    The profile comes first, but takes at most half before the others have had their share; one past
    conversation is worth more than the sixth memory, because a follow-up question needs it.
    """
    return (
        Step(of.profile, share=_PROFILE_SHARE),
        Step(of.memories, FIRST_MEMORIES),
        Step(of.items, _FIRST_ITEMS),
        Step(of.conversations, 1),
        Step(of.memories),
        Step(of.items),
        Step(of.conversations),
        Step(of.entities),
        Step(of.profile),
    )


def answering(of: SectionsOfBlock, *, nothing: bool) -> Plan:
    """The order with a question: what affects any answer has its part, then relevance decides."""
    share, most = (_NEAREST, _NEAREST_TOKENS) if nothing else (_PINNED, _PINNED_TOKENS)
    evidence = of.items if isinstance(of.items, AnsweringLines) else Step(of.items)
    memories = Step(of.memories, FIRST_MEMORIES, share, most, skips=True)
    return (
        Step(of.profile, share=_PROFILE_FLOOR, most=_PROFILE_TOKENS, skips=True, shortens=True),
        Step(of.conversations, 1, share=_ONGOING_FLOOR),
        Step(of.entities, share=_NAMED_FLOOR, skips=True),
        # That nothing answers is said above all.
        *((evidence, memories) if nothing else (memories, evidence)),
        Step(of.inferred, share=_PROFILE_FLOOR, most=_PROFILE_TOKENS, skips=True),
    )


def memory_entries(memories: Iterable[Memory], lines: Lines) -> Iterator[Entry]:
    """`- [TYPE] content` lines."""
    return (lines.memory(one, _tag_of_all(one)) for one in memories)


def item_entries(items: Sequence[RelevantItem], lines: Lines) -> list[Entry]:
    """`- [SOURCE] title: text` lines."""
    return [lines.item(one) for one in items]


def conversation_entries(known: Material, lines: Lines) -> list[Entry]:
    """`- title: summary` lines."""
    return [lines.conversation(one) for one in known.conversations]


def _planned(
    context: PromptContext,
    of: SectionsOfBlock,
    *,
    opening: str = "",
    closing: str = "",
    gap: bool = False,
    instructions: Section | None = None,
) -> PromptLayout:
    if context.asked:
        # Best first: what answers precedes what affects any answer.
        sections = [of.profile, of.items, of.memories, of.inferred, of.conversations, of.entities]
        plan = list(answering(of, nothing=context.nothing))
    else:
        sections = [of.profile, of.memories, of.items, of.conversations, of.entities]
        plan = list(usefulness(of))
    if instructions is not None:
        sections.append(instructions)
        # They explain how to use the lines above them: useless at first, cheap after many.
        plan.insert(len(plan) if context.asked else 4, Step(instructions))
    return PromptLayout(sections, plan, opening, closing, gap, instructions)
