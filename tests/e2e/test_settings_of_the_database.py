"""Settings that a database administrator gave the database, or the login of a service.

They are defaults of every session. What a service needs does not depend on them.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import StartServices
from tests.e2e.importing import bring, kept, live, settled
from tests.e2e.learning import ALL_STATUSES, memories
from tests.e2e.leaving import erase, export, reinstate
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING
from tests.scripted_model import ScriptedModel

SETTINGS: dict[str, dict[str, str]] = {
    "serializable": {
        "default_transaction_isolation": "serializable",
        "default_transaction_deferrable": "on",
        "synchronous_commit": "off",
        # Formats.
        "timezone": "Asia/Kathmandu",
        "datestyle": "SQL, DMY",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "-15",
        "xmlbinary": "hex",
        # Old syntax.
        "standard_conforming_strings": "off",
        "backslash_quote": "off",
        "transform_null_equals": "on",
        "array_nulls": "off",
        # Patience.
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "idle_in_transaction_session_timeout": "1ms",
        "idle_session_timeout": "300ms",
        "row_security": "off",
        # Languages.
        "default_text_search_config": "pg_catalog.german",
        "lc_numeric": "C",
        "lc_messages": "C",
    },
    "repeatable read": {
        "default_transaction_isolation": "repeatable read",
        "default_transaction_read_only": "on",
        "search_path": "pg_catalog",
        "role": "none",
        "client_encoding": "LATIN1",
        # The planner.
        "enable_indexscan": "off",
        "enable_bitmapscan": "off",
        "enable_hashjoin": "off",
        "plan_cache_mode": "force_generic_plan",
        "jit_above_cost": "0",
        "debug_parallel_query": "on",
        "gin_fuzzy_search_limit": "1",
        "hnsw.ef_search": "1",
    },
}
"""As many at once as go together: none of them may change anything."""


def told(found: list[memory_pb2.Memory]) -> set[tuple[object, ...]]:
    """Memories without what reading them changes."""
    return {(m.id, m.content, m.status, m.version, m.valid_from.ToNanoseconds()) for m in found}


@pytest.mark.parametrize("name", SETTINGS)
async def test_defaults_of_sessions_change_nothing(
    start_services: StartServices,
    model: ScriptedModel,
    conninfo: str,
    superuser_conninfo: str,
    name: str,
) -> None:
    database = sql.Identifier(str(conninfo_to_dict(conninfo)["dbname"]))
    options = conninfo_to_dict(superuser_conninfo).get("options", "")
    patient = make_conninfo(superuser_conninfo, options=f"{options} -c statement_timeout=0")
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        for setting, value in SETTINGS[name].items():
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    database, sql.Identifier(*setting.split(".")), sql.Literal(value)
                )
            )
    async with start_services(model, **ENCRYPTING) as services:
        await live(services, model)
        found = await settled(services, patient)
        known = await memories(services, statuses=ALL_STATUSES)
        assert sorted(m.content for m in known) == [
            "The user drinks trà sen at five.",
            "The user is treated for quxdisease.",
            "The user lives in Huế.",
            "The user lives in Đà Nẵng.",
            "The user owes quxdebt.",
            "The user plays the organ.",
            "The user wants to learn the đàn tranh.",
        ]
        await erase(services)
        assert await reinstate(services)
        await bring(services, found.text.encode())
        again = await export(services)
        assert kept(again) == kept(found)
        assert told(await memories(services, statuses=ALL_STATUSES)) == told(known)
        await choose(services, encrypt_sensitive=True)
        await erase(services)
