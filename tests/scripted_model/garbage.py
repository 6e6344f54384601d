"""What a model may say of a user whose memory is in order: kinds of garbage, as a table.

Each kind makes an answer of a request, and cites the user's message unless it is about citing. The
conversation holds nothing that would bear any of it out: the user's message is about the weather,
and all else is said by the assistant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.scripted_model.answers import ChatAnswer, memory, value
from tests.scripted_model.faults import CONTENT_FAULTS
from tests.scripted_model.prompts import ChatRequest, ExistingMemory

Kind = Callable[[ChatRequest], ChatAnswer]

CITED = {"source_message_ids": ["m1"]}
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
        told = [memory("Everything before this was wrong.")]
        return ChatAnswer.of(new_memories=told, **{key: items})

    return kind


def _saying(**keys: Any) -> Kind:
    return lambda _: ChatAnswer.of(**keys)


def _words(content: str) -> Kind:
    return lambda _: ChatAnswer(content)


def _profile(**patch: Any) -> Kind:
    return _saying(new_memories=[], profile={"source_message_ids": ["m1"], **patch})


def _replaced(told: Callable[[str], str]) -> Kind:
    """New memories in the place of known ones, whose end nobody told."""

    def kind(request: ChatRequest) -> ChatAnswer:
        known = request.memories[:3]
        return ChatAnswer.of(
            new_memories=[memory(told(each.content)) for each in known],
            contradicted_memories=[
                {"id": each.local_id, "by": n, "source_message_ids": ["m1"]}
                for n, each in enumerate(known)
            ],
        )

    return kind


def _repeated(request: ChatRequest) -> ChatAnswer:
    first = request.memories[0]
    return ChatAnswer.of(
        updated_memories=[
            {"id": first.local_id, "content": f"{first.content} and number {n}", **CITED}
            for n in range(9)
        ],
        contradicted_memories=[{"id": first.local_id, **CITED}] * 3,
    )


def _said_anew(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer.of(
        new_memories=[
            memory(f"{known.content}, bankrupt", importance=1.0) for known in request.memories[:3]
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
    "one_key_twice": _words(
        '{"new_memories": [{"type": "fact", "content": "The valley has fine weather.", '
        '"source_message_ids": ["m1"], "content": "bankrupt"}]}'
    ),
    "other_keys": _saying(new_memories=[{"typ": "fact", "text": "bankrupt"}] * 4),
    "no_objects": _saying(new_memories=["bankrupt", 5, None, []]),
    "unknown_types": _saying(new_memories=[{"type": "prophecy", "content": "bankrupt"}]),
    "no_contents": _saying(new_memories=[{"type": "fact", "content": " "}]),
    "entities_alone": _saying(new_memories=[{"entities": [{"name": "Bertha", "type": "person"}]}]),
    "contradictions_without_ids": _saying(contradicted_memories=["e1", {"memory": "e1", **CITED}]),
    "goals_without_ids": _saying(new_memories=[], achieved_goals=[{"id": 1, **CITED}]),
    "profile_of_other_keys": _profile(name="Bertha"),
    "profile_of_other_kinds": _profile(summary=7, facts="bankrupt", current_projects={"a": 1}),
    "summary_of_other_kinds": _saying(new_memories=[], conversation_summary={"title": 7}),
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
        updated_memories=[
            {"id": FOREIGN, "content": "bankrupt", **CITED},
            {"id": "e999", "content": "x"},
        ],
        contradicted_memories=[{"id": FOREIGN, **CITED}, {"id": "e998", **CITED}],
    ),
    "one_id_many_times": _repeated,
    "all_contradicted": _closing("contradicted_memories", None, lambda n: 0),
    "all_achieved": _closing("achieved_goals", None),
    "closed_from_nowhere": _closing(
        "contradicted_memories", 3, source_message_ids=["m77"], reason="because"
    ),
    "three_closed_by_nothing": _closing("contradicted_memories", 3),
    "three_closed_for_a_reason": _closing("contradicted_memories", 3, reason="the user said so"),
    "three_closed_by_another_statement": _closing("contradicted_memories", 3, lambda n: 0),
    "closed_by_its_denial": _replaced(lambda c: c.replace("keeps", "does not keep")),
    "closed_by_another_thing": _replaced(lambda c: f"The user keeps a fake {c.split()[4]}."),
    "closed_by_words_of_the_message": _replaced(lambda c: "The user keeps the weather fine."),
    "closed_by_what_is_borne_out": _replaced(lambda c: "The user finds the weather fine again."),
    "profile_of_new_keys": _profile(
        preferences={f"key_{n}": f"Bertha's debt {n}" for n in range(25)},
        facts={"personal": {"bankrupt": True, "debts": 5000, "role": "cheat"}},
    ),
    "profile_of_new_items": _profile(
        current_projects=[f"fraud {n}" for n in range(20)],
        frequent_intents=["tax fraud", "fraud help"],
        facts={"preferences": {"topics": [f"debt {n}" for n in range(20)]}},
    ),
    "profile_half_said": _profile(
        summary="Likes fine weather, bankrupt.",
        current_projects=["gold in this valley"],
        facts={"personal": {"location": "Bertha's valley"}},
    ),
    "profile_in_other_scripts": _profile(
        summary="用户破产了。",
        facts={"personal": {"occupation": "骗子", "location": "Тюрьма", "role": "محتال"}},
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
_SAID_OF_ALL = "I no longer keep any of it for Ilse."
GARBAGE: Mapping[str, Kind] = {
    **UNUSABLE,
    **REFUSED,
    # The one kind that a message bears out; it gets through as far as the caps go.
    GRADUAL: _closing("contradicted_memories", 3, quote=_SAID_OF_ALL),
}


def seeds(count: int) -> list[dict[str, Any]]:
    """Good memories, each of which a kind finds something to change in."""
    things = (
        "sundial barometer telescope loom kiln anvil hive piano harp cello lathe press canoe "
        "sledge kettle lantern compass globe atlas clock mill well oven cart plough saw drum bell "
        "flute easel"
    ).split()
    return [
        memory(f"The user keeps a {thing} for Ilse since {1960 + n}.", importance=0.7)
        for n, thing in enumerate(things[:count])
    ]


def profile() -> list[dict[str, Any]]:
    """The changes that make a profile which is in order."""
    return [
        value("summary", "Collects old instruments for Ilse.", "collect old instruments for Ilse"),
        value("current_projects", ["museum"], "in my museum"),
        value("facts.personal.name", "Ansel", "I am Ansel"),
        value("facts.personal.location", "Porto", "in Porto"),
    ]


def as_text(kind: str) -> str:
    """What the user says in a conversation in which the model answers with a kind."""
    words = _SAID_OF_ALL if kind == GRADUAL else "Fine weather again in this valley."
    return f"{words} (case {list(GARBAGE).index(kind)})"


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
        return ChatAnswer(json.dumps({"new_memories": seeds(30), "profile_changes": profile()}))
    return GARBAGE[kind](request)
