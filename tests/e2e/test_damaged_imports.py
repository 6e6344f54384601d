"""Exports that are damaged or made by hand: refused, or read and changed like any other (H2).

Each seed damages one export in a few ways and imports it for a user of its own. Whatever was
stored, partly or in whole, no call about that user may fail for a reason that it does not document,
an export of it can be imported again, and an erasure leaves nothing.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import grpc
import pytest

from hitherto.v1 import job_pb2, memory_pb2, search_pb2
from hitherto_extraction.restoring.tables import IMPORTED
from tests.e2e.conftest import Services, Shared
from tests.e2e.importing import Lived, bring, kept, lived
from tests.e2e.learning import ended, replies, rows, submit, talk
from tests.e2e.leaving import erase, export, unannounced
from tests.e2e.methods import METHODS, call, documented, read_refusal
from tests.e2e.sealing import ENCRYPTING
from tests.scripted_model import ScriptedModel
from tests.scripted_model.answers import memory

Record = dict[str, Any]
SEEDS = range(12)
MOMENTS = (
    "1900-01-01T00:00:00+00:00",
    "1970-01-01T00:00:00.000001+00:00",
    "2026-01-01T00:00:00+14:00",
    "2199-12-31T23:59:59.999999+00:00",
)
READS = tuple(name for name in METHODS if name.startswith("RetrievalService/"))
WRITES = (
    "MemoryService/UpdateMemory", "MemoryService/ForgetMemory", "MemoryService/RestoreMemory",
    "MemoryService/ReviewMemory", "MemoryService/RecordFeedback", "MaintenanceService/Consolidate",
    "MaintenanceService/UndoConsolidation", "MaintenanceService/RunDecay",
    "MaintenanceService/RunRetention", "MaintenanceService/RollbackSource",
    "ExtractionService/DeleteDocument", "ExtractionService/EndConversation",
    "SessionService/UpdateSession", "SessionService/ResolvePendingAction",
    "PrivacyService/DeleteConversation", "PrivacyService/UpdateUserSettings",
)  # fmt: skip


SERVICE_SETTINGS = dict(ENCRYPTING)


@pytest.fixture(scope="module")
async def person(shared_modelled: Shared, shared_model: ScriptedModel) -> Lived:
    return await lived(shared_modelled, shared_model, encrypt=False)


# --- damages -------------------------------------------------------------------------------------


def _any(chance: random.Random, records: list[Record]) -> Record:
    """A record of a table at random, so that large tables do not hide small ones."""
    table = chance.choice(sorted({record["table"] for record in records[1:]}))
    return chance.choice([record for record in records if record["table"] == table])


def _columns(record: Record, wanted: Callable[[Any], bool]) -> list[str]:
    return [name for name, value in record["row"].items() if wanted(value)]


def is_uid(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False


def is_moment(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 18 and value[4:5] == "-" and "T" in value


def swapped(chance: random.Random, records: list[Record]) -> None:
    first, second = (chance.randrange(1, len(records)) for _ in range(2))
    records[first], records[second] = records[second], records[first]


def shuffled(chance: random.Random, records: list[Record]) -> None:
    rest = records[1:]
    chance.shuffle(rest)
    records[1:] = rest


def lost(chance: random.Random, records: list[Record]) -> None:
    gone = _any(chance, records)
    whole = chance.random() < 0.3
    records[1:] = [
        record
        for record in records[1:]
        if record is not gone and not (whole and record["table"] == gone["table"])
    ]


def repeated(chance: random.Random, records: list[Record]) -> None:
    """The same keys again, with a value of another record."""
    twin, other = copy.deepcopy(_any(chance, records)), _any(chance, records)
    shared = sorted(twin["row"].keys() & other["row"].keys())
    if shared:
        name = chance.choice(shared)
        twin["row"][name] = other["row"][name]
    records.insert(chance.randrange(1, len(records) + 1), twin)


def crossed(chance: random.Random, records: list[Record]) -> None:
    """An id of something else."""
    found = [value for r in records for value in r["row"].values() if is_uid(value)]
    record = _any(chance, records)
    if names := _columns(record, is_uid):
        record["row"][chance.choice(names)] = chance.choice(found)


def circular(chance: random.Random, records: list[Record]) -> None:
    """Memories, or their versions, that succeed each other in a circle."""
    table = chance.choice(["memories", "memory_versions"])
    of = [record["row"] for record in records if record["table"] == table]
    circle = chance.sample(of, min(len(of), chance.randrange(2, 5)))
    for row, following in zip(circle, [*circle[1:], circle[0]], strict=True):
        if row["memory_id"] != following["memory_id"]:
            row["status"] = chance.choice(["superseded", "contradicted", "achieved"])
            row["superseded_by"] = following["memory_id"]


def displaced(chance: random.Random, records: list[Record]) -> None:
    """Another time, also of everything in a table."""
    record = _any(chance, records)
    if names := _columns(record, is_moment):
        name, value = chance.choice(names), chance.choice(MOMENTS)
        everywhere = chance.random() < 0.3
        for other in records:
            if other is record or (everywhere and other["table"] == record["table"]):
                other["row"][name] = value


def renumbered(chance: random.Random, records: list[Record]) -> None:
    record = _any(chance, records)
    names = _columns(record, lambda value: type(value) in (int, float))
    if names:
        value = chance.choice([0, 1, 2, 3, 7, 1000, 2**31 - 1, 0.5])
        record["row"][chance.choice(names)] = value


def retold(chance: random.Random, records: list[Record]) -> None:
    """A word of another row in a column of words, such as a status, an action or a content."""
    record, other = _any(chance, records), _any(chance, records)
    names = _columns(record, lambda value: isinstance(value, str) and not is_uid(value))
    words = [value for value in other["row"].values() if isinstance(value, str)]
    if names and words:
        record["row"][chance.choice(names)] = chance.choice(words)


def enlarged(chance: random.Random, records: list[Record]) -> None:
    record = _any(chance, records)
    names = _columns(record, lambda value: isinstance(value, str) and not is_uid(value))
    if names:
        text = chance.choice(["x" * 60_000, "từ " * 2_600, "\n: [" * 2_000, "🍵" * 2_000])
        record["row"][chance.choice(names)] = text


def emptied(chance: random.Random, records: list[Record]) -> None:
    record = _any(chance, records)
    name = chance.choice(sorted(record["row"]))
    record["row"][name] = chance.choice([None, {}, [], ""])


DAMAGES = (
    swapped, shuffled, lost, repeated, crossed, circular, displaced, renumbered, retold, enlarged,
    emptied,
)  # fmt: skip


def damaged(chance: random.Random, text: str) -> bytes:
    records = [json.loads(line) for line in text.splitlines()]
    if chance.random() < 0.9:
        # Whatever is missing then, nothing says so.
        records = unannounced(records)
    for damage in chance.choices(DAMAGES, k=chance.randrange(1, 5)):
        damage(chance, records)
    data = "\n".join(json.dumps(record) for record in records).encode()
    return data[: chance.randrange(len(data))] if chance.random() < 0.1 else data


# --- what follows --------------------------------------------------------------------------------


KEYS = (
    "memory_id",
    "conversation_id",
    "document_id",
    "message_id",
    "session_id",
    "pending_action_id",
)
VALUES: dict[str, Callable[[random.Random], Any]] = {
    "query": lambda chance: chance.choice(["", "Where does the user live?", "trà sen 東京"]),
    "decision": lambda chance: chance.choice([1, 2]),
    "rating": lambda chance: 4,
    "status": lambda chance: 2,
    "explain": lambda chance: True,
    "excerpt_messages": lambda chance: 1,
}


def request_of(chance: random.Random, name: str, user: str, records: list[Record]) -> Any:
    """A request about something of the user at random."""
    request: Any = METHODS[name].request()
    fields = request.DESCRIPTOR.fields_by_name
    if "user_id" in fields:
        request.user_id = user
    known = {key: [r["row"][key] for r in records if r["row"].get(key)] or ["none"] for key in KEYS}
    named = [key for key in KEYS if key in fields and not name.endswith("SearchMemories")]
    # A roll-back takes one of them.
    for key in [chance.choice(named)] if "Rollback" in name else named:
        setattr(request, key, chance.choice(known[key]))
    for field in sorted(set(fields) & set(VALUES)):
        setattr(request, field, VALUES[field](chance))
    for field in sorted(set(fields) & {"as_of", "known_at"}):
        if chance.random() < 0.4:
            getattr(request, field).FromJsonString(chance.choice(MOMENTS))
    if "scopes" in fields and chance.random() < 0.5:
        request.scopes.extend(search_pb2.SearchScope.values()[1:])
    if "statuses" in fields:
        request.statuses.extend(memory_pb2.MemoryStatus.values()[1:])
    if name.endswith("UpdateMemory"):
        request.memory.content = f"The user drinks tea number {chance.random()}."
        request.update_mask.paths[:] = ["content"]
    elif name.endswith("UpdateUserSettings"):
        request.user_settings.encrypt_sensitive = chance.random() < 0.7
        request.update_mask.paths.append("encrypt_sensitive")
    return request


async def asked(services: Services, name: str, request: Any) -> list[Any]:
    """The replies, or none after a refusal that the contract documents for the caller's input."""
    try:
        return await call(services, METHODS[name], request)
    except grpc.aio.AioRpcError as error:
        refusal = documented(read_refusal(error))
        assert refusal.code in {
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.NOT_FOUND,
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.ALREADY_EXISTS,
        }, (name, request, refusal)
        return []


def later(request: Any) -> dict[str, Any]:
    """Learn from what a user says after the import, also against what is known."""
    source = request.messages[0].local_id
    known = [{"id": each.local_id, "source_message_ids": [source]} for each in request.memories]
    return {
        "new_memories": [memory("The user sails to Đà Nẵng.", [source])],
        "updated_memories": [{**each, "content": "The user drinks trà sen."} for each in known[:1]],
        "contradicted_memories": [{**each, "by": 0} for each in known[1:2]],
        "achieved_goals": known[2:3],
        "profile": {"summary": "Sails.", "facts": {"personal": {"location": "Huế"}}},
        "conversation_summary": {"title": "Sailing", "summary": "Sails."},
    }


@pytest.mark.parametrize("seed", SEEDS)
async def test_h2_what_a_damaged_export_leaves_can_be_read_changed_and_taken_along(
    person: Lived, shared_model: ScriptedModel, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    services, user = person.services, f"damaged {seed}"
    shared_model.script = replies({"sail": later})
    try:
        await bring(services, damaged(chance, person.export.text), user)
    except grpc.aio.AioRpcError as error:
        refusal = documented(read_refusal(error))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, refusal
    found = await export(services, user)
    records = [json.loads(line) for line in found.text.splitlines()]

    async def read() -> None:
        for name in READS:
            for _ in range(3):
                await asked(services, name, request_of(chance, name, user, records))

    await read()
    copied = await bring(services, found.text.encode(), f"copy {seed}")
    assert not copied.skipped_counts
    again = await export(services, f"copy {seed}")
    assert [row.replace(f"copy {seed}", user) for row in kept(again)] == kept(found)
    for name in chance.choices(WRITES, k=12):
        await asked(services, name, request_of(chance, name, user, records))
    (job_id,) = await submit(services, talk("I sail", user=user, conversation="sailing"))
    job = await ended(services, job_id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    await read()
    await export(services, user)
    for each in (user, f"copy {seed}"):
        await erase(services, each)
        left = {
            table
            for table in IMPORTED.keys() - {"users"}
            if rows(person.conninfo, f"SELECT 1 FROM {table} WHERE user_id = '{each}'")
        }
        assert not left
    assert not [r for r in caplog.records if r.levelname in ("ERROR", "CRITICAL")]
