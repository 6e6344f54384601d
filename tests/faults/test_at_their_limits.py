"""Requests and replies at their limits, and above them, hold a service for a moment only.

Each is sent alone while another tenant and the health checks are timed, and while a watch inside of
the processes measures how long their loop does nothing else, and what it does.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.struct_pb2 import Struct, Value

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    job_pb2,
    privacy_pb2,
    profile_pb2,
    search_pb2,
    session_service_pb2,
)
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from hitherto.v1 import privacy_service_pb2 as privacy
from hitherto.v1 import retrieval_service_pb2 as retrieval
from tests.e2e.credentials import bearer, key
from tests.e2e.masks import masked
from tests.faults.bystander import bystander
from tests.faults.processes import (
    API_KEY,
    CHANNEL_OPTIONS,
    ROOT,
    Processes,
    Service,
    eventually,
)
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, empty_script

LONGEST_WAIT_SECONDS = 2.0
LONGEST_HOLD_SECONDS = 0.5
NOTED_SECONDS = 0.03
DIMENSIONS = 64
MEBIBYTE = 1024 * 1024
MOST = 4 * MEBIBYTE - 4096

SUBMIT = "ExtractionService/SubmitTranscripts"
APPEND = "ExtractionService/AppendMessages"
PREVIEW = "ExtractionService/PreviewExtraction"
SETTINGS = "PrivacyService/UpdateUserSettings"
STREAM = "ExtractionService/StreamTranscripts"
INGEST = "ExtractionService/IngestDocuments"
SAVE = "MemoryService/SaveMemory"
PROFILE = "MemoryService/UpdateProfile"
FEEDBACK = "MemoryService/RecordFeedback"
SESSION = "SessionService/UpdateSession"
SEARCH = "RetrievalService/SearchMemories"
CONTEXT = "RetrievalService/GetContext"
LIST = "RetrievalService/ListMemories"

STREAMS = (STREAM,)
OPTIONS: list[tuple[str, int]] = [
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", 64 * MEBIBYTE),
]
chance = random.Random(11)
WORDS = [
    "".join(chance.choices("abcdefghijklmnoprstuvwy", k=chance.randrange(3, 10)))
    for _ in range(20_000)
]


def prose(size: int) -> str:
    """So many bytes of words, most of them different."""
    words, used = [], 0
    while used < size:
        words.append(chance.choice(WORDS))
        used += len(words[-1]) + 1
    return " ".join(words)[:size]


def said(content: str, **fields: Any) -> conversation_pb2.Message:
    return conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content=content, **fields)


def transcript(
    messages: Iterable[conversation_pb2.Message], conversation: str, user: str = "u"
) -> conversation_pb2.Transcript:
    return conversation_pb2.Transcript(
        user_id=user, conversation_id=conversation, messages=messages
    )


def struct(size: int) -> Struct:
    """Free JSON of many small entries."""
    found = Struct()
    for number in range(size // 16):
        found.fields[f"key_{number}"].CopyFrom(Value(number_value=number))
    return found


def deep(depth: int) -> Struct:
    value = Value(number_value=1)
    for _ in range(depth):
        value = Value(struct_value=Struct(fields={"k": value}))
    return value.struct_value


def nested_list(size: int) -> Struct:
    """Free JSON with one list of numbers."""
    found = Struct()
    found.fields["k"].list_value.extend(range(size))
    return found


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    request: Any


def without_learning() -> privacy.UpdateUserSettingsRequest:
    """What this user says is stored and indexed at once, and no model is asked."""
    return privacy.UpdateUserSettingsRequest(
        user_id="u", user_settings=privacy_pb2.UserSettings(learning_enabled=False)
    )


def stored() -> Iterator[Case]:
    """What there is to be found and rendered: as much as a context may hold, and long."""
    for number in range(100):
        yield Case(
            "",
            SAVE,
            memory.SaveMemoryRequest(
                user_id="u",
                content=f"{number} tea {prose(1_500)}",
                tags=["tea"],
                metadata=struct(2_000),
            ),
        )
    for number in range(6):
        yield Case(
            "",
            SUBMIT,
            extraction.SubmitTranscriptsRequest(
                transcripts=[
                    transcript([said(f"tea {prose(1_000)}") for _ in range(4)], f"told-{number}")
                ]
            ),
        )


def replies() -> Iterator[tuple[str, str]]:
    """What a model may answer, as long as an answer may be."""
    most = 7 * MEBIBYTE
    item = {"type": "fact", "content": "Keeps bees.", "source_message_ids": ["m1"]}
    yield "items", json.dumps({"new_memories": [item] * (most // 80)})
    yield "keys", "{" + ",".join(f'"{n}":0' for n in range(most // 11)) + "}"
    yield "lists", '{"new_memories":[' + "[]," * (most // 3) + "[]]}"
    yield "numbers", '{"new_memories":[' + "0," * (most // 2) + "0]}"
    yield "one text", json.dumps({"new_memories": [item | {"content": prose(most)}]})
    yield "fences", "```json\n" * (most // 8)
    yield (
        "facts",
        json.dumps(
            {"new_memories": [], "profile": {"facts": {f"k{n}": "v" for n in range(most // 16)}}}
        ),
    )


def cases() -> Iterator[Case]:
    """What may be sent: at a limit, or as much above it as a request may have."""
    longest = prose(64 * 1024)
    unknown: Any = 99
    every = [
        search_pb2.SEARCH_SCOPE_MEMORIES,
        search_pb2.SEARCH_SCOPE_MESSAGES,
        search_pb2.SEARCH_SCOPE_SUMMARIES,
        search_pb2.SEARCH_SCOPE_DOCUMENTS,
    ]
    yield Case(
        "64 messages of 64 KiB",
        SUBMIT,
        extraction.SubmitTranscriptsRequest(
            transcripts=[transcript([said(prose(64_000)) for _ in range(64)], "wide")]
        ),
    )
    yield Case(
        "2,000 messages of 2 KiB",
        SUBMIT,
        extraction.SubmitTranscriptsRequest(
            transcripts=[transcript([said(prose(2_000)) for _ in range(2_000)], "long")],
            idempotency_key="once",
        ),
    )
    yield Case(
        "100 transcripts of 400 messages",
        SUBMIT,
        extraction.SubmitTranscriptsRequest(
            transcripts=[
                transcript([said(f"{n} {m} {prose(40)}") for m in range(400)], f"many-{n}")
                for n in range(100)
            ]
        ),
    )
    yield Case(
        "2,000 messages with metadata and context items",
        APPEND,
        extraction.AppendMessagesRequest(
            user_id="u",
            conversation_id="appended",
            messages=[
                said(
                    prose(100),
                    metadata=struct(400),
                    context_items=[
                        conversation_pb2.ContextItem(id=f"m{n}", relevance=0.5) for n in range(40)
                    ],
                )
                for _ in range(2_000)
            ],
        ),
    )
    yield Case(
        "60 messages with 64 KiB of metadata",
        APPEND,
        extraction.AppendMessagesRequest(
            user_id="u",
            conversation_id="metadata",
            messages=[said("Hello.", metadata=struct(32_000)) for _ in range(60)],
        ),
    )
    yield Case(
        "a preview of 64 messages of 64 KiB",
        PREVIEW,
        extraction.PreviewExtractionRequest(
            transcript=transcript([said(prose(64_000)) for _ in range(64)], "preview")
        ),
    )
    yield Case(
        "100,000 empty messages",
        STREAM,
        extraction.StreamTranscriptsRequest(
            transcript=transcript([conversation_pb2.Message()] * 100_000, "empty")
        ),
    )
    yield Case(
        "100,000 transcripts",
        SUBMIT,
        extraction.SubmitTranscriptsRequest(transcripts=[conversation_pb2.Transcript()] * 100_000),
    )
    for name, content in (
        ("prose", prose(MOST)),
        ("line breaks", "\n" * MOST),
        ("cjk", "字" * (MOST // 3)),
    ):
        yield Case(
            f"a document of 4 MiB of {name}",
            INGEST,
            extraction.IngestDocumentsRequest(
                user_id="u",
                documents=[
                    document_pb2.Document(
                        source_type="gdrive", source_id=name, title="T", content=content
                    )
                ],
            ),
        )
    yield Case(
        "100 documents of 38 KB",
        INGEST,
        extraction.IngestDocumentsRequest(
            user_id="u",
            documents=[
                document_pb2.Document(
                    source_type="gdrive",
                    source_id=f"d{n}",
                    title=prose(4_000),
                    content=prose(20_000),
                    summary=prose(10_000),
                    metadata=struct(4_000),
                )
                for n in range(100)
            ],
        ),
    )
    for name, free in (
        ("64 KiB", struct(40_000)),
        ("4 MiB", struct(2_000_000)),
        ("30 levels", deep(30)),
        ("a long list", nested_list(240_000)),
    ):
        yield Case(
            f"a memory with a struct of {name}",
            SAVE,
            memory.SaveMemoryRequest(
                user_id="u", content="Likes tea.", metadata=free, context=free
            ),
        )
        yield Case(
            f"a session with a struct of {name}",
            SESSION,
            session_service_pb2.UpdateSessionRequest(user_id="u", session_id="s", context=free),
        )
        yield Case(
            f"a profile with a struct of {name}",
            PROFILE,
            masked(
                memory.UpdateProfileRequest(
                    user_id="u", profile=profile_pb2.Profile(facts=free, preferences=free)
                )
            ),
        )
        yield Case(
            f"a search with a struct of {name}",
            SEARCH,
            retrieval.SearchMemoriesRequest(user_id="u", query="tea", metadata_filter=free),
        )
    yield Case(
        "a memory of 8 KB",
        SAVE,
        memory.SaveMemoryRequest(
            user_id="u",
            content=prose(8_000),
            detail=prose(8_000),
            tags=[prose(60).replace(" ", "_") for _ in range(32)],
            keywords=[prose(60) for _ in range(32)],
        ),
    )
    yield Case(
        "a memory with 200,000 tags",
        SAVE,
        memory.SaveMemoryRequest(user_id="u", content="Tea.", tags=["a b c"] * 200_000),
    )
    yield Case(
        "an edit of 64 KiB",
        FEEDBACK,
        memory.RecordFeedbackRequest(
            user_id="u",
            conversation_id="c",
            message_id="m",
            edit=memory.ResponseEdit(original=prose(64_000), edited=prose(64_000)),
        ),
    )
    for name, text in (
        ("prose", longest),
        ("line breaks", "\n" * 65_000),
        ("cjk", "字" * 21_000),
        ("marks", "e" + "\u0301\u0327" * 16_000),
        ("names", " ".join(word.capitalize() for word in WORDS[:8_000])),
        ("dates", "yesterday on 2024-05-01 last May " * 1_900),
    ):
        for method in (SEARCH, CONTEXT):
            yield Case(
                f"a query of 64 KiB of {name}",
                method,
                (
                    retrieval.SearchMemoriesRequest(
                        user_id="u",
                        query=text,
                        limit=200,
                        scopes=every,
                        explain=True,
                    )
                    if method == SEARCH
                    else retrieval.GetContextRequest(user_id="u", query=text)
                ),
            )
    template: Any
    for template in range(1, 5):
        yield Case(
            f"the largest context, template {template}",
            CONTEXT,
            retrieval.GetContextRequest(
                user_id="u",
                query="tea " + prose(200),
                scopes=every,
                max_memories=200,
                max_relevant=200,
                max_conversations=200,
                max_entities=200,
                max_tokens=1_000_000,
                template=template,
            ),
        )
    for name, text in (
        ("of text", prose(15_900) + " {{memories}} {{relevant}}"),
        ("of placeholders", "{{relevant}}" * 1_360),
        ("of braces", "{" * 16_380),
    ):
        yield Case(
            f"a template {name} at its limit",
            CONTEXT,
            retrieval.GetContextRequest(
                user_id="u",
                query="tea",
                scopes=every,
                max_memories=200,
                max_relevant=200,
                max_tokens=1_000_000,
                template=search_pb2.PROMPT_TEMPLATE_CUSTOM,
                custom_template=text,
            ),
        )
    yield Case(
        "3,000,000 scopes",
        SEARCH,
        retrieval.SearchMemoriesRequest(user_id="u", query="tea", scopes=[unknown] * 3_000_000),
    )
    yield Case(
        "3,000,000 statuses",
        LIST,
        retrieval.ListMemoriesRequest(user_id="u", statuses=[unknown] * 3_000_000),
    )
    yield Case(
        "3,000,000 unknown types",
        SEARCH,
        retrieval.SearchMemoriesRequest(user_id="u", query="tea", types=[unknown] * 3_000_000),
    )
    yield Case(
        "a vector of 1,000,000",
        SEARCH,
        retrieval.SearchMemoriesRequest(
            user_id="u", query="tea", query_embedding=[0.5] * 1_000_000
        ),
    )
    yield Case(
        "100,000 weights",
        SEARCH,
        retrieval.SearchMemoriesRequest(
            user_id="u", query="tea", weights={f"w{n}": 1.0 for n in range(100_000)}
        ),
    )
    yield Case(
        "filters at their bound",
        LIST,
        retrieval.ListMemoriesRequest(
            user_id="u",
            tags=[prose(60) for _ in range(100)],
            page_size=1000,
            metadata_filter=struct(40_000),
        ),
    )


@dataclass(frozen=True)
class Stage:
    """Both services, a caller of one tenant, and what the watch in each process writes."""

    writer: Service
    reader: Service
    mine: list[tuple[str, str]]
    others: list[tuple[str, str]]
    model: ScriptedModel
    holds: dict[str, Path]

    async def send(self, case: Case) -> str:
        """Send it; the status."""
        service = self.reader if case.method.startswith("Retrieval") else self.writer
        data = case.request.SerializeToString()
        path = f"/hitherto.v1.{case.method}"
        async with grpc.aio.insecure_channel(service.address, options=OPTIONS) as channel:
            try:
                if case.method in STREAMS:
                    await channel.stream_unary(path)(iter([data]), metadata=self.mine, timeout=120)
                else:
                    await channel.unary_unary(path)(data, metadata=self.mine, timeout=120)
            except grpc.aio.AioRpcError as error:
                return error.code().name
        return "OK"

    async def idle(self) -> None:
        """Wait until no job is left to do."""
        asked = extraction.ListJobsRequest(
            states=[
                job_pb2.JOB_STATE_QUEUED,
                job_pb2.JOB_STATE_RUNNING,
                job_pb2.JOB_STATE_FAILED,
            ]
        ).SerializeToString()
        async with grpc.aio.insecure_channel(self.writer.address, options=OPTIONS) as channel:
            call: Any = channel.unary_unary("/hitherto.v1.ExtractionService/ListJobs")

            async def nothing_left() -> bool:
                reply = await call(asked, metadata=self.mine, timeout=120)
                return not extraction.ListJobsResponse.FromString(reply).total_size

            await eventually(nothing_left, "the jobs to end", seconds=600)

    def now(self) -> dict[str, int]:
        """How much the watches have written."""
        return {name: file.stat().st_size for name, file in self.holds.items()}

    def told(self, since: dict[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
        """What they have written since then, with the service it is about."""
        for name, file in self.holds.items():
            for line in file.read_bytes()[since[name] :].splitlines():
                yield name, json.loads(line)

    def longest_hold(self, since: dict[str, int]) -> tuple[float, str]:
        """The longest that a loop was held since then, in processor seconds, and what by."""
        found = [(0.0, "")]
        for name, told in self.told(since):
            if "held" in told:
                # A process that waits for a processor is held by its neighbours.
                seconds = min(told["held"], told["used"])
                found.append((seconds, f"{name}: {told['where'][:2]}"))
        return max(found)


@pytest.fixture
async def stage(place: Path, conninfo: str) -> AsyncIterator[Stage]:
    async with ScriptedModel(empty_script, embed=alike) as model:
        processes = Processes(
            place,
            DATABASE_URL=conninfo,
            OPENAI_BASE_URL=model.base_url,
            OPENAI_API_KEY=API_KEY,
            HITHERTO_AUTH="api-key",
            HITHERTO_LEASE_SECONDS="60",
            PYTHONPATH=str(ROOT / "tests" / "faults" / "loop_watch"),
        )
        try:
            holds = {name: place / f"{name}.holds" for name in ("extraction", "retrieval")}
            for file in holds.values():
                file.touch()
            writer, reader = [
                await processes.start(name, LOOP_WATCH_FILE=str(holds[name]))
                for name in ("extraction", "retrieval")
            ]
            mine, others = [bearer(await key(conninfo, tenant)) for tenant in "ab"]
            yield Stage(writer, reader, mine, others, model, holds)
        finally:
            processes.close()


async def alike(texts: list[str]) -> list[Any]:
    """Vectors that take this process no time."""
    return [np.full(DIMENSIONS, 0.125, dtype=np.float32)] * len(texts)


class Watch:
    """Notes what each case did to others, and complains at the end."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.seen: list[str] = []
        self.complaints: list[str] = []

    @asynccontextmanager
    async def over(self, name: str) -> AsyncIterator[None]:
        """Watch while the block runs."""
        stage = self._stage
        since = stage.now()
        async with bystander(stage.writer.address, stage.reader.address, stage.others) as waited:
            yield
        held, where = stage.longest_hold(since)
        told = f"{name}: others wait {waited.seconds:.2f} s ({waited.call}), held {held:.3f} s"
        self.seen.append(told)
        if held > NOTED_SECONDS:
            self.seen.append(f"    {where}")
        # Where others want the processors too, everybody waits for them.
        crowded = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        if waited.seconds > LONGEST_WAIT_SECONDS * crowded or held > LONGEST_HOLD_SECONDS:
            self.complaints.append(f"{told} by {where}")


@pytest.mark.timeout(900)
async def test_requests_at_their_limits_hold_nobody_up(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.send(Case("", SETTINGS, without_learning()))
    since = stage.now()
    for case in stored():
        await eventually(partial(sent, stage, case), "what is to be found to be stored")
    watch = Watch(stage)
    for case in cases():
        async with watch.over(f"{case.method} {case.name}"):
            for _ in range(3):
                told = await stage.send(case)
                # On a busy machine the database may be late.
                if told != "UNAVAILABLE":
                    break
        assert told not in ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "CANCELLED"), (
            f"{case.method} {case.name}: {told}"
        )
    async with watch.over("the jobs of all of them"):
        await stage.idle()
    collections = [told for _, told in stage.told(since) if "collected" in told]
    with capsys.disabled():
        print("", *watch.seen, f"full collections: {collections}", sep="\n")
    assert not watch.complaints
    # What the process consists of is not scanned.
    assert all(told["left_out"] > STANDS for told in collections)


async def sent(stage: Stage, case: Case) -> bool:
    """Whether it is there; on a busy machine the database may be late."""
    return await stage.send(case) == "OK"


STANDS = 50_000
"""Objects that a started process consists of, at the least."""
SAID = "I keep bees."


def to_the_talk(answer: ChatAnswer) -> Callable[[ChatRequest], ChatAnswer]:
    """To `one_message`; a harmless request is answered as it should be."""
    return lambda request: answer if SAID in request.user else ChatAnswer.of(new_memories=[])


def one_message(name: str) -> Case:
    """A conversation of a user of this name."""
    user = name.replace(" ", "-")
    given = transcript([said(SAID)], "c", user=user)
    return Case("", SUBMIT, extraction.SubmitTranscriptsRequest(transcripts=[given]))


@pytest.mark.timeout(900)
async def test_replies_of_a_model_at_their_limit_hold_nobody_up(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch(stage)
    for name, text in replies():
        stage.model.script = to_the_talk(ChatAnswer(text))
        async with watch.over(f"a reply of {len(text) >> 10} KiB of {name}"):
            assert await stage.send(one_message(name)) == "OK"
            await stage.idle()
    with capsys.disabled():
        print("", *watch.seen, sep="\n")
    assert not watch.complaints
