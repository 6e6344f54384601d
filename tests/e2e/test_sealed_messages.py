"""Messages, summaries and unusable replies of somebody who encrypts (H3; faults.md, section 3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from hitherto_shared.encryption.rows import MESSAGE, SUMMARY
from tests.e2e.conftest import Services, StartServices
from tests.e2e.indexed import check_words
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, dump, holding, key_of, reply_in
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ChatAnswer, ChatRequest, RawReply, ScriptedModel
from tests.scripted_model.answers import memory
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

SAID = ["bệnhviệnhuế", "秘密の猫と薬", "🫀zwj👩‍⚕️", "سِرّي"]
HEARD = "zzassistanttold"
SUMMED = ["zztitle", "zzsummary", "zztopic", "zztechnical", "zzfollow", "会話の題"]
LATER = "zzlaterword"
WORDS = [*SAID, HEARD, *SUMMED, LATER]
_INDEXED = "SELECT 1 FROM passage_postings UNION ALL SELECT 1 FROM message_embeddings"
_MESSAGES = (
    "SELECT message_id, content, name, context_items::text, metadata::text, sealed IS NOT NULL,"
    " lexical_no FROM messages ORDER BY message_no"
)


def script(request: ChatRequest) -> ChatAnswer:
    """A harmless memory, and a summary that quotes; a later call gives a part of it anew."""
    source = request.messages[0].local_id
    if any(LATER in message.content for message in request.messages):
        return ChatAnswer.of(conversation_summary={"summary": f"zzsummary then {LATER}"})
    return ChatAnswer.of(
        new_memories=[memory("The user drinks green tea.", [source])],
        conversation_summary={
            "title": "zztitle 会話の題",
            "summary": "zzsummary",
            "key_topics": ["zztopic"],
            "technical_topics": ["zztechnical"],
            "outcome": "resolved",
            "followup_suggestions": ["zzfollow"],
        },
    )


SERVICE_SETTINGS = {**ENCRYPTING, "job_max_retries": 0}


@pytest.fixture
async def encrypting(modelled: Services) -> Services:
    """Services with a key, and Ana, who encrypts."""
    modelled.model.script = script
    await choose(modelled, encrypt_sensitive=True)
    return modelled


def secret_talk(conversation: str = "c1", *more: str) -> pb.SubmitTranscriptsRequest:
    transcript = talk(*SAID, ("assistant", HEARD), *more, conversation=conversation)
    transcript.messages[0].name = "Bí Mật"
    transcript.messages[0].metadata.update({"note": SAID[0]})
    return pb.SubmitTranscriptsRequest(transcripts=[transcript])


async def tell(services: Services, request: pb.SubmitTranscriptsRequest) -> job_pb2.Job:
    accepted = await services.extraction.SubmitTranscripts(request)
    job = await ended(services, accepted.jobs[0].id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return job


async def test_h3_messages_are_stored_sealed_and_read_by_all_that_may(encrypting: Services) -> None:
    job = await tell(encrypting, secret_talk())
    held = rows(encrypting.conninfo, _MESSAGES)
    assert [row[1:] for row in held] == [("", "", "[]", "{}", True, None)] * 5
    assert rows(encrypting.conninfo, _INDEXED) == []
    assert rows(encrypting.conninfo, "SELECT 1 FROM passage_statistics WHERE texts > 0") == []
    # The model was shown what was said, and the memory rests on it.
    (prompt,) = [request for request in encrypting.model.chat_requests if not request.consolidation]
    assert [m.content for m in prompt.messages] == [*SAID, HEARD]
    (learnt,) = await memories(encrypting)
    assert [each.message_id for each in learnt.sources] == ["c1-1"]
    key = await key_of(encrypting)
    (sealed,) = rows(encrypting.conninfo, "SELECT sealed FROM messages WHERE message_id = 'c1-1'")
    assert key.open(sealed[0], MESSAGE.place("c1", "c1-1")) == {
        "content": SAID[0],
        "name": "Bí Mật",
        "context_items": [],
        "metadata": {"note": SAID[0]},
    }

    # A preview opens it and leaves nothing.
    later = secret_talk("c1", LATER).transcripts[0]
    shown = await ask(encrypting, "PreviewExtraction", transcript=later)
    assert shown.summary.title == "zztitle 会話の題"
    assert shown.summary.summary == f"zzsummary then {LATER}"

    # B4: the same id with the same words is the same message; with others it is refused. Also for
    # somebody who encrypts no more.
    other = secret_talk()
    other.transcripts[0].messages[0].content += "!"
    for encrypt in (True, False):
        await choose(encrypting, encrypt_sensitive=encrypt)
        again = await encrypting.extraction.SubmitTranscripts(secret_talk())
        assert [each.id for each in again.jobs] == [job.id]
        refusal = await refusal_of(encrypting.extraction.SubmitTranscripts(other))
        assert refusal.reason == "MESSAGE_ID_REUSED"
        assert not any(word in refusal.message for word in SAID)
    assert len(rows(encrypting.conninfo, _MESSAGES)) == 5
    await choose(encrypting, encrypt_sensitive=True)

    # Feedback finds what a sealed answer used.
    transcript = talk("well?", ("assistant", "green tea"), conversation="c2")
    transcript.messages[1].context_items.add(id=learnt.id)
    await learn(encrypting, transcript)
    moved = await ask(
        encrypting, "RecordFeedback", conversation_id="c2", message_id="c2-2", rating=5
    )
    assert list(moved.memory_ids) == [learnt.id]
    assert holding(dump(encrypting.conninfo), WORDS) == {}


async def test_h3_appended_streamed_and_in_one_batch_each_user_is_stored_as_they_chose(
    encrypting: Services,
) -> None:
    await ask(encrypting, "AppendMessages", conversation_id="c1", messages=talk(*SAID).messages)
    both = [talk(HEARD, conversation="c2"), talk("in clear", user="bo", conversation="b")]

    async def stream() -> AsyncIterator[pb.StreamTranscriptsRequest]:
        for each in both:
            yield pb.StreamTranscriptsRequest(transcript=each)

    reply = await encrypting.extraction.StreamTranscripts(stream())
    assert (reply.accepted_count, reply.rejected_count) == (2, 0)
    batch = [talk(SAID[1], conversation="c3"), talk("in clear", user="bo", conversation="b2")]
    for job_id in [*reply.job_ids, *await submit(encrypting, *batch)]:
        assert (await ended(encrypting, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    counts = rows(
        encrypting.conninfo,
        "SELECT user_id, sealed IS NOT NULL, count(*) FROM messages GROUP BY 1, 2 ORDER BY 1",
    )
    assert counts == [("ana", True, 6), ("bo", False, 2)]
    assert holding(dump(encrypting.conninfo), [*SAID, HEARD]) == {}


class TestSummaries:
    async def test_h3_a_summary_is_sealed_and_merged_with_what_comes_later(
        self, encrypting: Services
    ) -> None:
        await tell(encrypting, secret_talk())
        await tell(encrypting, secret_talk("c1", LATER))
        shown = [
            request for request in encrypting.model.chat_requests if not request.consolidation
        ][-1]
        assert "会話の題" in "\n".join(str(each) for each in shown.body["messages"])
        ((sealed, *clear),) = rows(
            encrypting.conninfo,
            "SELECT sealed, title, summary, key_topics, technical_topics, followup_suggestions,"
            " lexical_no, embedding_state, covers_to FROM conversation_summaries",
        )
        assert clear == ["", "", [], [], [], None, "none", 6]
        key = await key_of(encrypting)
        assert key.open(sealed, SUMMARY.place("c1")) == {
            "title": "zztitle 会話の題",
            "summary": f"zzsummary then {LATER}",
            "key_topics": ["zztopic"],
            "technical_topics": ["zztechnical"],
            "followup_suggestions": ["zzfollow"],
        }
        assert rows(encrypting.conninfo, "SELECT 1 FROM summary_embeddings") == []
        assert holding(dump(encrypting.conninfo), WORDS) == {}
        # With encryption off, what is said is in clear and indexed; what quotes the rest is not.
        await choose(encrypting, encrypt_sensitive=False)
        await tell(encrypting, secret_talk("c1", LATER, "said in clear"))
        assert holding(dump(encrypting.conninfo), WORDS) == {}
        clear = rows(encrypting.conninfo, "SELECT content FROM messages WHERE sealed IS NULL")
        assert clear == [("said in clear",)]
        check_words(encrypting.conninfo)

    async def test_h3_a_title_nobody_gave_comes_from_a_sealed_message(
        self, encrypting: Services
    ) -> None:
        encrypting.model.script = lambda _: ChatAnswer.of(new_memories=[])
        await learn(encrypting, talk(SAID[1], HEARD))
        ((sealed,),) = rows(encrypting.conninfo, "SELECT sealed FROM conversation_summaries")
        assert (await key_of(encrypting)).open(sealed, SUMMARY.place("c1"))["title"] == SAID[1]

    async def test_h3_a_summary_from_before_is_sealed_with_the_next_words(
        self, start_services: StartServices, model: ScriptedModel
    ) -> None:
        model.script = script
        async with start_services(model, **ENCRYPTING) as services:
            await tell(services, secret_talk())
            assert set(holding(dump(services.conninfo), SUMMED)) == set(SUMMED)
            await choose(services, encrypt_sensitive=True)
            await tell(services, secret_talk("c1", LATER))
            # What the source said of it before is left to the sweep.
            left = holding(dump(services.conninfo), [*SUMMED, LATER])
            assert {place for places in left.values() for place in places} <= {
                ("statements", "said")
            }
            await eventually(lambda: holding(dump(services.conninfo), [*SUMMED, LATER]) == {})
            await eventually(
                lambda: rows(services.conninfo, "SELECT 1 FROM summary_embeddings") == []
            )


async def test_h3_an_unusable_reply_is_sealed_with_the_users_key(encrypting: Services) -> None:
    encrypting.model.always(RawReply.saying(f"not json: {SAID[0]}"))
    (job_id,) = await submit(encrypting, talk("hm"))
    assert (await ended(encrypting, job_id)).state == job_pb2.JOB_STATE_DEAD
    (row,) = rows(encrypting.conninfo, "SELECT job_id, claim_no, sealed FROM unusable_replies")
    key = await key_of(encrypting)
    assert SAID[0] in reply_in(row, key, encrypting.folder)


async def test_h3_without_the_key_transcripts_are_refused_and_nothing_is_stored(
    start_services: StartServices,
) -> None:
    async def stream() -> AsyncIterator[pb.StreamTranscriptsRequest]:
        yield pb.StreamTranscriptsRequest(transcript=secret_talk().transcripts[0])
        yield pb.StreamTranscriptsRequest(transcript=talk("hi", user="bo"))

    async with start_services(**ENCRYPTING) as services:
        await choose(services, encrypt_sensitive=True)
    for settings in ({}, {"encryption_key": "0b" * 32}):
        async with start_services(**settings) as services:
            refusal = await refusal_of(services.extraction.SubmitTranscripts(secret_talk()))
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
            assert not any(word in refusal.message for word in SAID)
            reply = await services.extraction.StreamTranscripts(stream())
            assert [error.reason for error in reply.errors] == ["ENCRYPTION_NOT_CONFIGURED"]
            assert (reply.accepted_count, reply.rejected_count) == (1, 1)
    for table in ("messages", "conversations"):
        assert rows(services.conninfo, f"SELECT 1 FROM {table} WHERE user_id = 'ana'") == []
