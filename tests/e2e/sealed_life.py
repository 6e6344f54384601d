"""A life with a word of its own in every field, for what dumps, sweeps and exports tell of it."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto.v1 import conversation_pb2, job_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import checks, save, update
from tests.e2e.learning import ended, learn, submit, talk
from tests.e2e.sealing import PERSONAL, change_profile
from tests.scripted_model import ChatAnswer, ChatRequest, RawReply, ScriptedModel
from tests.scripted_model.answers import memory, quoting

SAID = [
    "qumsguser",
    "qumsgassistant",
    "qumsgname",
    "qumsgmeta",
    "qumsgitem",
    "bímậtlờinói",
    "秘密の猫",
    "🫀zwj👩‍⚕️",
    "سِرّي",
]
LEARNT = ["qulcontent", "quldetail", "qultag", "qulkeyword", "qulentity", "qulcontext"]
SUMMED = ["qustitle", "会話の題", "qussummary", "qustopic", "qustechnical", "qusfollowup"]
PROFILE = [
    "qupsummary",
    "qupproject",
    "qupprefkey",
    "qupprefvalue",
    "qupintent",
    "qupfactkey",
    "qupfactvalue",
    "qupmeta",
]
SAVED = ["quscontent", "qusdetail", "qustag", "quskeyword", "quscontext", "qusmeta"]
CHANGED = ["quucontent", "quudetail", "quutag", "quukeyword", "quuentity", "quucontext", "quumeta"]
BY_HAND = ["quhsummary", "quhproject", "quhfactkey", "quhfactvalue", "quhmeta", "quhintent"]
ENDED = ["qureason"]
ASKED = ["quaskedwords"]
REPLIED = ["qubrokenreply"]
BROKEN = [*REPLIED, "qubrokentalk"]
LIVED = [*SAID, *LEARNT, *SUMMED, *PROFILE, *SAVED, *CHANGED, *BY_HAND]
WORDS = [*LIVED, *ENDED, *ASKED, *BROKEN]

CLEAR = "The user drinks green tea."
TREATED, OWES = "The user is treated for qulcontent.", "The user owes quucontent now."
FIRST_WORDS = (
    "I take qumsguser, and bímậtlờinói, and 秘密の猫, and 🫀zwj👩‍⚕️, and سِرّي."
    " qupsummary, qupproject, qupprefvalue, qupintent, qupfactvalue, qupmeta."
)


def everything(request: ChatRequest) -> ChatAnswer:
    """An answer with a word in each field, and one memory that is not sensitive; or the end of it.

    To anything else that is said, nothing.
    """
    if request.consolidation:
        return ChatAnswer.of(memories=[])
    source = request.messages[0].local_id
    said = " ".join(message.content for message in request.messages)
    if "coffee" in said:
        (tea,) = [known.local_id for known in request.memories if CLEAR in known.content]
        ended_by = {"id": tea, "reason": "they said qureason", "source_message_ids": [source]}
        return quoting(request, contradicted_memories=[ended_by])
    if SAID[0] not in said:
        return ChatAnswer.of(new_memories=[])
    return quoting(
        request,
        new_memories=[
            memory(
                TREATED,
                [source],
                type="personal",
                detail="quldetail at length",
                tags=["qultag"],
                keywords=["qulkeyword"],
                entities=[{"name": "Qulentity", "type": "person"}],
                context={"place": "qulcontext"},
            ),
            memory(CLEAR, [source], entities=[{"name": "Teahouse", "type": "place"}]),
        ],
        profile={
            "summary": "qupsummary",
            "current_projects": ["qupproject"],
            "preferences": {"qupprefkey": "qupprefvalue"},
            "frequent_intents": ["qupintent"],
            "facts": {"health": {"qupfactkey": "qupfactvalue"}},
            "metadata": {"note": "qupmeta"},
        },
        conversation_summary={
            "title": "qustitle 会話の題",
            "summary": "qussummary",
            "key_topics": ["qustopic"],
            "technical_topics": ["qustechnical"],
            "outcome": "resolved",
            "followup_suggestions": ["qusfollowup"],
        },
    )


def first_talk() -> conversation_pb2.Transcript:
    """A conversation with a word in every field of its messages."""
    transcript = talk(FIRST_WORDS, ("assistant", "You said qumsgassistant."))
    first, second = transcript.messages
    first.name = "qumsgname"
    first.metadata.update({"qumsgmeta": "qumsgmeta"})
    second.context_item_ids.append("qumsgitem")
    return transcript


async def save_everything(services: Services, *, entities: Sequence[str] = ()) -> str:
    """Save a sensitive memory by hand and correct it; its id. One that is sealed names nobody."""
    saved = await save(
        services,
        "The user owes quscontent.",
        type=PERSONAL,
        detail="qusdetail",
        tags=["qustag"],
        keywords=["quskeyword"],
        context={"quscontext": "quscontext"},
        metadata={"qusmeta": "qusmeta"},
    )
    await update(
        services,
        saved.memory.id,
        *("content", "detail", "tags", "keywords", "context", "metadata"),
        *(["entities"] if entities else []),
        content=OWES,
        detail="quudetail",
        tags=["quutag"],
        keywords=["quukeyword"],
        entities=entities,
        context={"quucontext": "quucontext"},
        metadata={"quumeta": "quumeta"},
    )
    await change_profile(
        services,
        summary="quhsummary",
        current_projects=["quhproject"],
        frequent_intents=["quhintent"],
        facts={"health": {"quhfactkey": "quhfactvalue"}},
        metadata={"note": "quhmeta"},
    )
    return saved.memory.id


async def answer_with_nothing(
    services: Services, model: ScriptedModel, *, user: str = "ana"
) -> None:
    """A job that dies of what the model answers; the services do not repeat jobs."""
    await checks(services)
    # A key may be anything that the model heard.
    model.always(RawReply.saying('{"qubrokenreply": 1, "qubrokenreply": 2}'))
    (dead,) = await submit(services, talk("qubrokentalk", user=user, conversation="c2"))
    assert (await ended(services, dead)).state == job_pb2.JOB_STATE_DEAD
    model.always(None)


async def live(services: Services, model: ScriptedModel, *, entities: Sequence[str] = ()) -> str:
    """Leave behind all of it; the id of the memory that was saved by hand."""
    model.script = everything
    await learn(services, first_talk())
    saved = await save_everything(services, entities=entities)
    await learn(services, talk("no green tea anymore, coffee", conversation="c3"))
    await answer_with_nothing(services, model)
    return saved
