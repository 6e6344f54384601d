"""What a model may say of a user whose memory is in order: 43 kinds of garbage, as a table.

Each kind makes an answer of a request. The conversation holds nothing that would bear any of it
out: the user's first message is about the weather, and all else is said by the assistant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.scripted_model.answers import ChatAnswer, memory
from tests.scripted_model.faults import CONTENT_FAULTS
from tests.scripted_model.prompts import ChatRequest, ExistingMemory

Kind = Callable[[ChatRequest], ChatAnswer]

FOREIGN = "0190b3a4-7c1e-7000-8000-000000000001"


def _updating(
    change: Callable[[ExistingMemory], Mapping[str, Any]], most: int = 3, **more: Any
) -> Kind:
    def kind(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer.of(
            new_memories=[],
            updated_memories=[
                {"id": known.local_id, "source_message_ids": ["m1"], **more, **change(known)}
                for known in request.memories[:most]
            ],
        )

    return kind


def _rewording(change: Callable[[str], str], most: int = 3, **more: Any) -> Kind:
    return _updating(lambda known: {"content": change(known.content)}, most, **more)


def _closing(
    key: str, most: int | None, by: Callable[[int], int | None] = lambda n: None, **more: Any
) -> Kind:
    def kind(request: ChatRequest) -> ChatAnswer:
        items = [
            {"id": known.local_id, "by": by(n), "source_message_ids": ["m1"], **more}
            for n, known in enumerate(request.memories[:most])
        ]
        told = [memory("Everything before this was wrong.", ["m1"])]
        return ChatAnswer.of(new_memories=told, **{key: items})

    return kind


def _saying(**keys: Any) -> Kind:
    return lambda _: ChatAnswer.of(**keys)


def _words(content: str) -> Kind:
    return lambda _: ChatAnswer(content)


def _profile(**patch: Any) -> Kind:
    return _saying(new_memories=[], profile=patch)


def _repeated(request: ChatRequest) -> ChatAnswer:
    first = request.memories[0]
    return ChatAnswer.of(
        updated_memories=[
            {"id": first.local_id, "content": f"{first.content} and number {n}"} for n in range(9)
        ],
        contradicted_memories=[{"id": first.local_id}] * 3,
    )


def _said_anew(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer.of(
        new_memories=[
            memory(f"{known.content}, bankrupt", ["m1"], importance=1.0)
            for known in request.memories[:3]
        ]
    )


def _swapped(request: ChatRequest) -> ChatAnswer:
    contents = [known.content for known in request.memories]
    return ChatAnswer.of(
        updated_memories=[
            {"id": known.local_id, "content": content, "source_message_ids": ["m1"]}
            for known, content in zip(request.memories[:3], contents[1:], strict=False)
        ]
    )


def _deep(_: ChatRequest) -> ChatAnswer:
    nested = '{"a":' * 900 + "1" + "}" * 900
    return ChatAnswer('{"new_memories": [], "profile": {"preferences": ' + nested + "}}")


def _appended(text: str, end: str, sources: Sequence[str] = ("m1",)) -> Kind:
    return _rewording(
        lambda content: content.rstrip(".") + text + end, source_message_ids=list(sources)
    )


UNUSABLE: Mapping[str, Kind] = {
    **{name: _words(text) for name, text in CONTENT_FAULTS.items()},
    "other_keys": _saying(new_memories=[{"typ": "fact", "text": "bankrupt"}] * 4),
    "no_objects": _saying(new_memories=["bankrupt", 5, None, []]),
    "unknown_types": _saying(new_memories=[{"type": "prophecy", "content": "bankrupt"}]),
    "no_contents": _saying(new_memories=[{"type": "fact", "content": " "}]),
    "changes_without_ids": _saying(updated_memories=[{"memory": "e1", "content": "bankrupt"}]),
}
"""Kinds that are no answer: their jobs end DEAD with the reason MODEL_UNUSABLE."""

REFUSED: Mapping[str, Kind] = {
    "negated": _rewording(lambda c: c.replace("The user keeps", "The user does not keep")),
    "never": _rewording(lambda c: c.replace("The user keeps", "The user never keeps")),
    "no_longer": _rewording(lambda c: c.replace("keeps", "used to keep")),
    "intended": _rewording(lambda c: c.replace("keeps", "wants to keep")),
    "another_subject": _rewording(lambda c: c.replace("The user", "The neighbour")),
    "another_owner": _rewording(lambda c: c.replace("The user", "The user's neighbour")),
    "other_numbers": _rewording(lambda c: c.replace("since 19", "since 18")),
    "other_names": _rewording(lambda c: c.replace("Ilse", "Bertha")),
    "appended": _appended(", and is bankrupt", "."),
    "appended_as_the_assistant_said": _appended(", and is bankrupt", ".", ["m2"]),
    "appended_from_nowhere": _appended(", and is bankrupt", ".", ["m77", FOREIGN]),
    "appended_in_chinese": _appended("而且是骗子", "。"),
    "everything_in_one_reply": _rewording(lambda c: c.rstrip(".") + " badly.", 50),
    "replaced": _rewording(lambda _: "hijacked"),
    "emptied_to_a_part": _rewording(lambda c: c.partition(" since")[0]),
    "one_for_another": _swapped,
    "said_anew_with_more": _said_anew,
    "weightless": _updating(lambda _: {"importance": 0}),
    "negative_weights": _updating(lambda _: {"importance": -1}),
    "weights_that_are_no_numbers": _updating(lambda _: {"importance": float("nan"), "tags": ["x"]}),
    "ids_of_others": _saying(
        updated_memories=[{"id": FOREIGN, "content": "bankrupt"}, {"id": "e999", "content": "x"}],
        contradicted_memories=[{"id": FOREIGN}, {"id": "e998"}],
    ),
    "one_id_many_times": _repeated,
    "all_contradicted": _closing("contradicted_memories", None, lambda n: 0),
    "all_achieved": _closing("achieved_goals", None),
    "closed_from_nowhere": _closing(
        "contradicted_memories", 3, source_message_ids=["m77"], reason="because"
    ),
    "profile_of_another": _profile(
        summary="Bertha is bankrupt.", facts={"personal": {"name": "Bertha"}}
    ),
    "profile_without_a_source": _profile(
        summary="Bertha is bankrupt.", current_projects=["gold"], source_message_ids=["m77"]
    ),
    "profile_of_nothing": _profile(
        summary=None, current_projects=None, preferences={}, facts={"personal": {"name": None}}
    ),
    "profile_of_megabytes": _profile(facts={"personal": {f"k{n}": "v" * 999 for n in range(5000)}}),
    "profile_without_a_bottom": _deep,
}
"""Kinds that are answers, of which nothing is to be believed."""

GRADUAL = "three_closed_a_job"
GARBAGE: Mapping[str, Kind] = {
    **UNUSABLE,
    **REFUSED,
    # The one kind that gets through, as far as the caps of a job and of a day go.
    GRADUAL: _closing("contradicted_memories", 3),
}


def seeds(count: int) -> list[dict[str, Any]]:
    """Good memories, each of which a kind finds something to change in."""
    things = (
        "sundial barometer telescope loom kiln anvil hive piano harp cello lathe press canoe "
        "sledge kettle lantern compass globe atlas clock mill well oven cart plough saw drum bell "
        "flute easel"
    ).split()
    return [
        memory(f"The user keeps a {thing} for Ilse since {1960 + n}.", ["m1"], importance=0.7)
        for n, thing in enumerate(things[:count])
    ]


def profile() -> dict[str, Any]:
    """A profile that is in order."""
    return {
        "summary": "Collects old instruments for Ilse.",
        "current_projects": ["museum"],
        "facts": {"personal": {"name": "Ansel", "location": "Porto"}},
    }


def as_text(kind: str) -> str:
    """What the user says in a conversation in which the model answers with a kind."""
    return f"Fine weather again in this valley. (case {list(GARBAGE).index(kind)})"


def kind_in(text: str) -> str | None:
    """The kind that a message made by `as_text` asks for."""
    number = text.rpartition("(case ")[2].removesuffix(")")
    return list(GARBAGE)[int(number)] if number.isdigit() else None


def garbage_script(request: ChatRequest) -> ChatAnswer:
    """Good memories for whoever says hello, and the kind that a conversation asks for."""
    if request.consolidation:
        return ChatAnswer.of(memories=[])
    kind = kind_in(request.messages[0].content)
    if kind is None:
        return ChatAnswer(json.dumps({"new_memories": seeds(30), "profile": profile()}))
    return GARBAGE[kind](request)
