"""People of one tenant, and of two, who have the same ids everywhere: nobody reads or changes what
another has.

One person lives through everything; three more get a copy of every row, with the same ids and with
another word in place of theirs. Each then reads what the first read when alone in the database, and
what one changes leaves the rows of the others as they were. Row-level security is switched off, so
that it is the statements that keep people apart.
"""

from __future__ import annotations

import difflib
import json
import pprint
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from google.protobuf import json_format
from google.protobuf.message import Message
from psycopg import sql

from hitherto.v1 import conversation_pb2, memory_pb2, profile_pb2, search_pb2, session_pb2
from hitherto.v1 import maintenance_service_pb2 as maintenance
from hitherto.v1 import memory_service_pb2 as memory
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.handing_over import document, taken_in
from tests.e2e.learning import ended, learn, rows, talk
from tests.e2e.leaving import export
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS, call
from tests.e2e.sessions import add, items
from tests.e2e.sessions import update as update_session
from tests.tenants import Tenant, token_settings, without_row_security

WORD = "kestrel"
"""What only the first of the four has in her texts."""

_TABLES = """
SELECT c.relname::text
FROM pg_class AS c
WHERE c.relnamespace = 'hitherto'::regnamespace AND c.relkind = 'r'
  AND c.relname NOT IN ('api_keys', 'idempotency_keys')
  AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')
  AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'user_id')
ORDER BY c.relname
"""
_COLUMNS = """
SELECT column_name::text FROM information_schema.columns
WHERE table_schema = 'hitherto' AND table_name = %s
  AND is_generated = 'NEVER' AND is_identity = 'NO'
"""
_COPY = """
INSERT INTO hitherto.{table} ({columns})
SELECT {copied}
FROM hitherto.{table} AS t,
     LATERAL jsonb_populate_record(NULL::hitherto.{table},
         replace(to_jsonb(t)::text, %(word)s, %(other)s)::jsonb || %(whose)s || {own}) AS copied
WHERE t.tenant_id = %(tenant)s AND t.user_id = 'ana'
"""
_THEIRS = """
SELECT to_jsonb(t)::text FROM hitherto.{table} AS t
WHERE t.tenant_id = 'other-house' OR t.user_id = 'bo' ORDER BY 1
"""
_FENCE = re.compile(r"\b[0-9a-f]{16}\b")
"""What closes a block of the prompt, drawn anew for each."""
VOLATILE = {
    "access_count", "breakdown", "change_no", "consistency_token", "job_id", "last_accessed_at",
    "legs", "position", "prompt_tokens", "score", "sequence_no", "tenant_id", "user_id",
}  # fmt: skip
"""What may differ between two people, or two moments, of whom the same is known."""


GROWING = {"memory_access", "idempotency_keys", "audit_events", "audit_read_counts"}
"""Tables to which reading adds, or which are nobody's copy."""


@dataclass(frozen=True)
class Person:
    """One of the four."""

    tenant: Tenant
    user: str
    word: str


HOUSE, OTHER_HOUSE = Tenant("house"), Tenant("other-house")
ANA = Person(HOUSE, "ana", WORD)
NAMING = (
    "RetrievalService/GetContext", "RetrievalService/SearchMemories", "RetrievalService/GetMemory",
    "RetrievalService/ListMemories", "RetrievalService/GetConversation",
    "RetrievalService/GetDocument", "RetrievalService/GetProfile",
    "RetrievalService/GetRecentConversations", "RetrievalService/GetSession",
    "PrivacyService/ExportUser",
)  # fmt: skip
"""Calls that must find the word, or the comparison compares nothing."""
TWINS = [
    Person(HOUSE, "bo", "zamboru"),
    Person(OTHER_HOUSE, "ana", "kolvaro"),
    Person(OTHER_HOUSE, "bo", "tindomu"),
]


def tables(conninfo: str) -> list[str]:
    return [name for (name,) in rows(conninfo, _TABLES)]


async def live(services: Services) -> dict[str, str]:
    """Use everything there is, as the first of the four; the ids that came of it."""
    await learn(
        services,
        talk(f"I live in {WORD}ville.", "I work with Marco at Acme.", ("assistant", f"A {WORD}!")),
        talk(f"My goal is to see a {WORD}.", conversation="c2"),
    )
    bird: dict[str, Any] = {"metadata": {"kind": "bird"}}
    more: dict[str, Any] = {"tags": ["birds"], **bird}
    keeps = f"Ana keeps a {WORD}"
    saved = await save(services, keeps, keywords=["bird"], conversation_id="c1", **more)
    await save(services, f"Ana sold a {WORD}", **more)
    book = document("d1", f"All about a {WORD}, by Marco", title=f"The {WORD}", **bird)
    (document_id,), _ = await taken_in(services, book)
    await update_session(services, context={"last_message": WORD}, session="c1", recent=items("m1"))
    action = await add(services, type=f"buy_{WORD}", session="c1")
    profile = profile_pb2.Profile(summary=f"Has a {WORD}.", department="birds")
    request = memory.UpdateProfileRequest(user_id="ana", profile=profile)
    await services.memory.UpdateProfile(masked(request))
    # A job may go on with vectors and contradictions after its end.
    await learn(services, talk("Good night.", conversation="c3"))
    return {
        "memory_id": saved.memory.id,
        "document_id": document_id,
        "pending_action_id": action.id,
    }


def multiply(conninfo: str) -> None:
    """Give each twin a copy of every row, under the same ids; only a job's id is its own."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in tables(conninfo):
            columns = [name for (name,) in connection.execute(_COLUMNS, [table])]
            statement = sql.SQL(_COPY).format(
                table=sql.Identifier(table),
                columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
                copied=sql.SQL(", ").join(sql.Identifier("copied", name) for name in columns),
                own=sql.SQL(
                    "jsonb_build_object('job_id', gen_random_uuid())" if table == "jobs" else "'{}'"
                ),
            )
            for twin in TWINS:
                whose = {"tenant_id": twin.tenant.tenant_id, "user_id": twin.user}
                given = {"word": WORD, "other": twin.word, "tenant": HOUSE.tenant_id}
                connection.execute(statement, {**given, "whose": json.dumps(whose)})


def requests(user: str, ids: Mapping[str, str]) -> dict[str, list[Message]]:
    """Every way to read, as one of the four asks; each name of a call once or more."""
    every_scope = [number for number in search_pb2.SearchScope.values() if number]
    every_status = [number for number in memory_pb2.MemoryStatus.values() if number]
    asked = "What does Ana keep?"
    birds: dict[str, Any] = {"metadata_filter": {"kind": "bird"}}
    of_c1: dict[str, Any] = {"conversation_id": "c1"}
    memory_id, document_id = ids["memory_id"], ids["document_id"]
    reads: dict[str, list[dict[str, Any]]] = {
        "RetrievalService/GetContext": [{"query": asked, "scopes": every_scope}, of_c1],
        "RetrievalService/SearchMemories": [
            {"query": asked, "scopes": every_scope},
            {"query": "Who is Marco?", "entity": "Marco"},
            {"query": asked, **of_c1},
            {"query": asked, "scopes": every_scope, **birds},
            {"tags": ["birds"], "statuses": every_status},
        ],
        "RetrievalService/GetMemory": [{"memory_id": memory_id}],
        "RetrievalService/ListMemories": [
            {"statuses": every_status},
            {"entity": "Marco"},
            {"tags": ["birds"], "order_by": "importance"},
            birds,
            of_c1,
        ],
        "RetrievalService/GetMemoryHistory": [{"memory_id": memory_id}],
        "RetrievalService/GetProfile": [{}],
        "RetrievalService/GetProfileHistory": [{}],
        "RetrievalService/GetConversation": [{"message_limit": 100, **of_c1}],
        "RetrievalService/ListDocuments": [{}, {"entity": "Marco", **birds}],
        "RetrievalService/GetDocument": [{"document_id": document_id}],
        "RetrievalService/ListConversations": [{}],
        "RetrievalService/GetRecentConversations": [
            {"include_messages": True, "message_limit": 100}
        ],
        "RetrievalService/FindEntities": [{}, {"name": "Marco"}],
        "RetrievalService/GetSuggestions": [{}],
        "RetrievalService/GetSession": [{"session_id": "c1"}],
        "ExtractionService/ListJobs": [{}],
        "MaintenanceService/GetUsage": [{"group_by": [maintenance.USAGE_DIMENSION_USER]}],
        "PrivacyService/GetUserSettings": [{}],
    }
    return {
        name: [METHODS[name].request(user_id=user, **fields) for fields in given]
        for name, given in reads.items()
    }


def changes(ids: Mapping[str, str]) -> list[tuple[str, Message]]:
    """Calls by which the first of the four changes what is hers, at last everything."""
    of_c1, of_c2 = {"conversation_id": "c1"}, {"conversation_id": "c2"}
    its = {"memory_id": ids["memory_id"]}
    later = {"role": conversation_pb2.ROLE_USER, "content": "I like tea.", "id": "late"}
    confirmed = session_pb2.PENDING_ACTION_STATE_CONFIRMED
    decided = {"pending_action_id": ids["pending_action_id"], "status": confirmed}
    words = {"memory": {"content": "Two birds"}, "update_mask": {"paths": ["content"]}}
    profile = {"profile": {"summary": "Somebody else."}, "update_mask": {"paths": ["summary"]}}
    everything = {"include_profile": True, "include_conversations": True}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("MemoryService/UpdateMemory", {**its, **words}),
        ("MemoryService/ForgetMemory", its),
        ("MemoryService/RestoreMemory", its),
        ("MemoryService/UpdateProfile", profile),
        ("SessionService/ResolvePendingAction", decided),
        ("SessionService/UpdateSession", {"session_id": "c1"}),
        ("ExtractionService/AppendMessages", {"messages": [later], **of_c1}),
        ("ExtractionService/EndConversation", of_c1),
        ("MaintenanceService/Consolidate", {}),
        ("MaintenanceService/RunDecay", {}),
        ("MaintenanceService/RunRetention", {}),
        ("MaintenanceService/RollbackSource", of_c2),
        ("ExtractionService/DeleteDocument", {"document_id": ids["document_id"]}),
        ("PrivacyService/DeleteConversation", of_c2),
        ("PrivacyService/UpdateUserSettings", {"user_settings": {"learning_enabled": False}}),
        ("PrivacyService/ClearMemories", everything),
        ("PrivacyService/EraseUser", {}),
    ]
    return [(name, METHODS[name].request(user_id="ana", **given)) for name, given in calls]


def told(given: Any, word: str) -> Any:
    """A reply of which only what must be equal is left, with the first one's word."""
    if isinstance(given, Message):
        return told(json_format.MessageToDict(given, preserving_proto_field_name=True), word)
    if isinstance(given, dict):
        # A job's id is its own; everything else has the same id with all four.
        apart = VOLATILE | {"id"} if "max_attempts" in given else VOLATILE
        return {name: told(value, word) for name, value in given.items() if name not in apart}
    if isinstance(given, list):
        return sorted((told(value, word) for value in given), key=repr)
    if isinstance(given, str):
        return "\n".join(sorted(_FENCE.sub("", given.replace(word, WORD)).splitlines()))
    return given


def difference(one: Any, other: Any) -> list[str]:
    """The lines in which two replies differ."""
    ours, others = (pprint.pformat(given, width=200).splitlines() for given in (one, other))
    return [line for line in difflib.ndiff(ours, others) if not line.startswith(" ")]


async def read(services: Services, person: Person, ids: Mapping[str, str]) -> dict[str, Any]:
    """What one of the four reads, by call and number of the request."""
    theirs = services.as_tenant(person.tenant)
    found = {}
    for name, asked in requests(person.user, ids).items():
        for number, request in enumerate(asked):
            replies = await call(theirs, METHODS[name], request)
            found[f"{name} {number}"] = told(replies, person.word)
    exported = await export(theirs, person.user)
    found["PrivacyService/ExportUser 0"] = sorted(
        (table, repr(told(row, person.word)))
        for table, row in exported.rows
        if table not in {*GROWING, "manifest"}
    )
    return found


def theirs(conninfo: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the twins, but for how often a memory was read."""
    return {
        table: rows(conninfo, _THEIRS.format(table=table))
        for table in tables(conninfo)
        if table != "memory_access"
    }


async def test_row_60_equal_ids_are_nobody_elses(
    start_services: StartServices, superuser_conninfo: str, tmp_path: Path
) -> None:
    without_row_security(superuser_conninfo)
    async with start_services(**token_settings(tmp_path)) as services:
        house = services.as_tenant(HOUSE)
        ids = await live(house)
        alone = await read(services, ANA, ids)
        assert all(WORD in repr(alone[f"{name} 0"]) for name in NAMING), alone
        multiply(superuser_conninfo)
        for person in (ANA, *TWINS):
            for name, reply in (await read(services, person, ids)).items():
                assert reply == alone[name], (person, name, difference(reply, alone[name]))
        before = theirs(superuser_conninfo)
        assert all(
            len(before[table]) >= 3 for table in ("memories", "messages", "documents", "jobs")
        )
        for name, change in changes(ids):
            for reply in await call(house, METHODS[name], change):
                if reply.DESCRIPTOR.fields_by_name.get("job") and reply.job.id:
                    await ended(house, reply.job.id)
            after = theirs(superuser_conninfo)
            changed = [table for table, found in before.items() if after[table] != found]
            assert not changed, (name, changed)
