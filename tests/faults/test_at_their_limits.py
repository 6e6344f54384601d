"""Requests and replies at their limits, and above them, hold a service for a moment only.

Each is sent alone while another tenant and the health checks are timed, and while a watch inside of
the processes measures how long their loop does nothing else, and what it does.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
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
    search_pb2,
)
from hitherto.v1 import extraction_service_pb2 as extraction
from hitherto.v1 import memory_service_pb2 as memory
from tests.e2e.credentials import bearer, key
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS
from tests.faults.bystander import bystander, crowded
from tests.faults.processes import API_KEY, CHANNEL_OPTIONS, ROOT, Processes, Service
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, empty_script
from tests.waiting import eventually

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
CUSTOM = search_pb2.PROMPT_TEMPLATE_CUSTOM

STREAMS = (STREAM,)
OPTIONS: list[tuple[str, int]] = [
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", 64 * MEBIBYTE),
]
chance = random.Random(11)
SHORTEST = 4
"""Bytes of the shortest, with the space after it."""


@cache
def words() -> list[str]:
    """Many, made by who needs them, not by who collects this module."""
    letters = "abcdefghijklmnoprstuvwy"
    return ["".join(chance.choices(letters, k=chance.randrange(3, 10))) for _ in range(20_000)]


def prose(size: int) -> str:
    """So many bytes of words, most of them different."""
    return " ".join(chance.choices(words(), k=size // SHORTEST + 1))[:size]


def said(content: str, **fields: Any) -> conversation_pb2.Message:
    return conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content=content, **fields)


def transcript(
    messages: Iterable[conversation_pb2.Message], conversation: str, user: str = "u"
) -> conversation_pb2.Transcript:
    return conversation_pb2.Transcript(
        user_id=user, conversation_id=conversation, messages=messages
    )


def document(source_id: str, content: str, **fields: Any) -> document_pb2.Document:
    return document_pb2.Document(
        **{"source_type": "gdrive", "source_id": source_id, "title": "T", **fields}, content=content
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


def case(name: str, method: str, **fields: Any) -> Case:
    """A request of this user, if it is about one."""
    kind = METHODS[method].request
    whose = {"user_id": "u"} if "user_id" in kind.DESCRIPTOR.fields_by_name else {}
    return Case(name, method, kind(**whose, **fields))


def stored() -> Iterator[Case]:
    """What there is to be found and rendered: as much as a context may hold, and long."""
    for number in range(50):
        content, metadata = f"{number} tea {prose(3_000)}", struct(4_000)
        yield case("", SAVE, content=content, tags=["tea"], metadata=metadata)
    for number in range(6):
        messages = [said(f"tea {prose(1_000)}") for _ in range(4)]
        yield case("", SUBMIT, transcripts=[transcript(messages, f"told-{number}")])


def replies() -> Iterator[tuple[str, str]]:
    """What a model may answer, as long as an answer may be."""
    most = 7 * MEBIBYTE
    item = {"type": "fact", "content": "Keeps bees.", "source_message_ids": ["m1"]}
    yield "items", json.dumps({"new_memories": [item] * (most // 80)})
    yield "keys", "{" + ",".join(f'"{n}":0' for n in range(most // 11)) + "}"
    yield "lists", '{"new_memories":[' + "[]," * (most // 3) + "[]]}"
    yield "one text", json.dumps({"new_memories": [item | {"content": prose(most)}]})
    yield "fences", "```json\n" * (most // 8)
    yield (
        "facts",
        json.dumps(
            {"new_memories": [], "profile": {"facts": {f"k{n}": "v" for n in range(most // 16)}}}
        ),
    )


def written() -> Iterator[Case]:
    """What may be handed over: at a limit, or as much above it as a request may have."""
    wide = [said(prose(64_000)) for _ in range(64)]
    yield case("64 messages of 64 KiB", SUBMIT, transcripts=[transcript(wide, "wide")])
    long = transcript([said(prose(2_000)) for _ in range(2_000)], "long")
    yield case("2,000 messages of 2 KiB", SUBMIT, transcripts=[long], idempotency_key="once")
    many = [
        transcript([said(f"{n} {m} {prose(40)}") for m in range(400)], f"many-{n}")
        for n in range(100)
    ]
    yield case("100 transcripts of 400 messages", SUBMIT, transcripts=many)
    items = [conversation_pb2.ContextItem(id=f"m{n}", relevance=0.5) for n in range(40)]
    for name, messages in (
        (
            "2,000 messages with metadata and context items",
            [said(prose(100), metadata=struct(400), context_items=items) for _ in range(2_000)],
        ),
        (
            "60 messages with 64 KiB of metadata",
            [said("Hello.", metadata=struct(32_000)) for _ in range(60)],
        ),
    ):
        yield case(name, APPEND, conversation_id=name, messages=messages)
    preview = transcript([said(prose(64_000)) for _ in range(64)], "preview")
    yield case("a preview of 64 messages of 64 KiB", PREVIEW, transcript=preview)
    empty = transcript([conversation_pb2.Message()] * 100_000, "empty")
    yield case("100,000 empty messages", STREAM, transcript=empty)
    nothing = [conversation_pb2.Transcript()] * 100_000
    yield case("100,000 transcripts", SUBMIT, transcripts=nothing)
    for name, content in (
        ("prose", prose(MOST)),
        ("line breaks", "\n" * MOST),
        ("cjk", "字" * (MOST // 3)),
    ):
        yield case(f"4 MiB of {name}", INGEST, documents=[document(name, content)])
    documents = [
        document(f"d{n}", prose(2_000), title=prose(4_000), summary=prose(10_000),
                 metadata=struct(4_000))
        for n in range(100)
    ]  # fmt: skip
    # Long contents are above; each of these has a chunk or two, whose job takes as long as it must.
    yield case("100 documents of 20 KB", INGEST, documents=documents)
    for name, free, more in (
        ("64 KiB", struct(40_000), True),
        ("30 levels", deep(30), True),
        ("4 MiB", struct(2_000_000), False),
        ("a long list", nested_list(240_000), False),
    ):
        yield case(f"a struct of {name}", SAVE, content="Tea.", metadata=free, context=free)
        yield case(f"a struct of {name}", SEARCH, query="tea", metadata_filter=free)
        if more:
            yield case(f"a struct of {name}", SESSION, session_id="s", context=free)
            facts = {"facts": free, "preferences": free}
            profile = case(f"a struct of {name}", PROFILE, profile=facts)
            masked(profile.request)
            yield profile
    yield case(
        "8 KB",
        SAVE,
        content=prose(8_000),
        detail=prose(8_000),
        tags=[prose(60).replace(" ", "_") for _ in range(32)],
        keywords=[prose(60) for _ in range(32)],
    )
    yield case("200,000 tags", SAVE, content="Tea.", tags=["a b c"] * 200_000)
    edit = memory.ResponseEdit(original=prose(64_000), edited=prose(64_000))
    yield case("an edit of 64 KiB", FEEDBACK, conversation_id="c", message_id="m", edit=edit)


def asked() -> Iterator[Case]:
    """What may be asked, likewise."""
    unknown: Any = [99] * 3_000_000
    every = [number for number in search_pb2.SearchScope.values() if number]
    texts = {
        "prose": prose(64 * 1024),
        "line breaks": "\n" * 65_000,
        "cjk": "字" * 21_000,
        "marks": "e" + "\u0301\u0327" * 16_000,
        "names": " ".join(word.capitalize() for word in words()[:8_000]),
        "dates": "yesterday on 2024-05-01 last May " * 1_900,
    }
    for name, text in texts.items():
        query = f"a query of 64 KiB of {name}"
        yield case(query, SEARCH, query=text, limit=200, scopes=every, explain=True)
    for name in ("names", "dates"):
        yield case(f"a query of 64 KiB of {name}", CONTEXT, query=texts[name])
    largest: dict[str, Any] = {
        **{"scopes": every, "max_memories": 200, "max_relevant": 200, "max_tokens": 1_000_000},
        **{"max_conversations": 200, "max_entities": 200},
    }
    for template in range(1, 5):
        query = "tea " + prose(200)
        yield case(f"the largest, {template}", CONTEXT, query=query, template=template, **largest)
    for name, text in (
        ("of text", prose(15_900) + " {{memories}} {{relevant}}"),
        ("of placeholders", "{{relevant}}" * 1_360),
        ("of braces", "{" * 16_380),
    ):
        own: dict[str, Any] = {"template": CUSTOM, "custom_template": text, **largest}
        yield case(f"a template {name} at its limit", CONTEXT, query="tea", **own)
    yield case("3,000,000 scopes", SEARCH, query="tea", scopes=unknown)
    yield case("3,000,000 statuses", LIST, statuses=unknown)
    yield case("3,000,000 unknown types", SEARCH, query="tea", types=unknown)
    yield case("a vector of 1,000,000", SEARCH, query="tea", query_embedding=[0.5] * 1_000_000)
    weights = {f"w{n}": 1.0 for n in range(100_000)}
    yield case("100,000 weights", SEARCH, query="tea", weights=weights)
    tags = [prose(60) for _ in range(100)]
    yield case("full filters", LIST, tags=tags, page_size=1000, metadata_filter=struct(40_000))


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
            writer, reader = await processes.start_both(
                *({"LOOP_WATCH_FILE": str(file)} for file in holds.values())
            )
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
        longest = LONGEST_WAIT_SECONDS * crowded()
        if waited.seconds > longest or held > LONGEST_HOLD_SECONDS:
            self.complaints.append(f"{told} by {where}")


@pytest.mark.timeout(900)
async def test_requests_at_their_limits_hold_nobody_up(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    # What this user says is stored and indexed at once, and no model is asked.
    await stage.send(case("", SETTINGS, user_settings={"learning_enabled": False}))
    since = stage.now()
    async with asyncio.TaskGroup() as group:
        for each in stored():
            group.create_task(
                eventually(partial(sent, stage, each), "what is to be found to be stored")
            )
    watch = Watch(stage)
    for each in chain(written(), asked()):
        async with watch.over(f"{each.method} {each.name}"):
            for _ in range(3):
                told = await stage.send(each)
                # On a busy machine the database may be late.
                if told != "UNAVAILABLE":
                    break
        assert told not in ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "CANCELLED"), (
            f"{each.method} {each.name}: {told}"
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
    return lambda request: answer if SAID in request.user else empty_script(request)


def one_message(name: str) -> Case:
    """A conversation of a user of this name."""
    user = name.replace(" ", "-")
    given = transcript([said(SAID)], "c", user=user)
    return case("", SUBMIT, transcripts=[given])


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
