"""Where each statement of the services goes: to one shard, to several, or to the coordinator.

A statement is planned with sample parameters, whose types Postgres knows once it is prepared. All
texts are the same, so that all users in a statement are one user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from hitherto_extraction.restoring.tables import COMPUTED, IMPORTED
from hitherto_extraction.storage.sealing import CLEAR, changed_columns
from hitherto_shared.database.distribution import LOCAL, REFERENCE
from tools.citus.schema_rules import Distribution, hidden_reads
from tools.tree.scope_of_statements import ACROSS_USERS, blocks, references
from tools.tree.scope_of_statements import statements as constants

_MAY_BE_NULL = re.compile(r"%\((\w+)\)s::")
_PLACEHOLDER = re.compile(r"%(?:(?:\((\w+)\))?[sbt]|%)")
_TASKS = re.compile(r"(?<!Map )(?<!Merge )Task Count: (\d+)")
_CHANGED = re.compile(r"\bUPDATE (\w+) (?:AS \w+ )?SET\b")
_COMPARED = re.compile(r"\bCASE [\w.]+ WHEN\b")
_READ = re.compile(r"(?:Scan|Insert|Update|Delete)\b.* on (\w+)")
_NOT_RUN = ("Could not get remote plan", "pull to coordinator")
_EXTENSION = "halfvec"
_SAMPLES = {
    "bigint": "1",
    "boolean": "true",
    "bytea": r"\x00",
    "date": "2024-01-01",
    "double precision": "1",
    "halfvec": "[1,0,0,0,0,0,0,0]",
    "integer": "1",
    "interval": "1 day",
    "json": "[]",
    "jsonb": "{}",
    "name": "u",
    "numeric": "1",
    "regnamespace": "hitherto",
    "smallint": "1",
    "text": "1",
    "timestamp with time zone": "2024-01-01 00:00:00+00",
    "uuid": "01890000-0000-7000-8000-000000000000",
}
_TYPES = {"storage/schedules._PRUNE": ("text", "timestamptz", "integer")}
"""Types of parameters that Postgres cannot tell; the services send them along."""

_COLUMNS = """
SELECT array_agg(attname::text ORDER BY attnum)
FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""

_VOLATILE = """
SELECT proname::text FROM pg_proc
GROUP BY proname HAVING bool_and(provolatile = 'v') ORDER BY 1
"""


@dataclass(frozen=True)
class ServiceStatement:
    """A statement of the services as they send it, named by its module and constant.

    `across`: it is meant to concern several users, as sweeps, claims and rows of a tenant do.
    """

    name: str
    text: str
    across: bool


@dataclass(frozen=True)
class Route:
    """Where a statement goes: its tasks on shards (0: of the coordinator), or why it was refused.

    `steps` come before it, whose results travel between nodes.
    """

    tasks: int = 0
    steps: int = 0
    refused: str = ""

    @property
    def to_one_place(self) -> bool:
        """Whether it goes to a single shard, or stays on the coordinator."""
        return not self.refused and self.tasks <= 1 and self.steps == 0


def service_statements(
    connection: psycopg.Connection, plan: Distribution
) -> Iterator[ServiceStatement]:
    """Every statement; one that takes the name of a table, for each distributed one of its own.

    Those that need Citus itself are sent only where it is, and name no user.
    """
    for place, constant, text in constants():
        if "pg_dist_" in text or "citus." in text:
            continue
        across = constant in ACROSS_USERS.get(place, "").split()
        name = f"{place}.{constant}"
        if "{table}" not in text:
            yield ServiceStatement(name, text, across)
            continue
        for table in plan.distributed:
            named = connection.execute(_COLUMNS, {"table": table}).fetchone()
            held = named[0] if named else []
            columns, key, given = "held.*", ["1"], []
            if any(f"{each} " in text and each not in held for each in ("memory_id", "sealed")):
                continue
            if "UPDATE {table}" in text:
                if table not in CLEAR:
                    continue
                given, key = changed_columns(table), list(CLEAR[table].key)
                columns = ", ".join(given)
            if "INSERT INTO {table}" in text:
                if table not in IMPORTED:
                    continue
                given = [name for name in held if name not in COMPUTED]
                columns = ", ".join(given)
            filled = text.format(
                table=table,
                sealed="NULL",
                columns=columns,
                by="user_id",
                values=", ".join(f"new.{name}" for name in given),
                key=", ".join(f"held.{name}" if "UPDATE {table}" in text else name for name in key),
                named=", ".join(f"new.{name}" for name in key),
                which="true",
                primary_key=f"{table}_pkey",
            )
            yield ServiceStatement(f"{name} of {table}", filled, across)


def route(
    connection: psycopg.Connection, statement: ServiceStatement, plan: Distribution | None = None
) -> Route:
    """Where a statement goes, by the plan for sample parameters; nothing is executed.

    The connection is in autocommit, and has no prepared statements of its own.
    Citus must also plan it without what it casts, which need not be given.
    """
    text, names = _numbered(statement.text)
    given_by_some = set(_MAY_BE_NULL.findall(statement.text)) - {"tenant_id", "user_id"}
    given = _TYPES.get(statement.name, ())
    types = f" ({', '.join(given)})" if given else ""
    connection.execute("DEALLOCATE ALL")
    try:
        connection.execute(f"PREPARE probe{types} AS {text}".encode())
        row = connection.execute(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'probe'"
        ).fetchone()
        assert row is not None
        kinds: list[str] = row[0]
        if plan is not None and any(kind.startswith(_EXTENSION) for kind in kinds):
            connection.execute("DEALLOCATE ALL")
            kinds = _with_samples(connection, text, kinds)
        values = [sql.SQL("{}::{}").format(_sample(kind), sql.SQL(kind)) for kind in kinds]
        fewer = [
            sql.NULL if name in given_by_some else value
            for name, value in zip(names, values, strict=True)
        ]
        with connection.transaction():
            if plan is not None:
                connection.execute("SET LOCAL citus.propagate_set_commands = local")
                connection.execute("SET LOCAL hitherto.tenant_id = '1'")
            calls: list[Sequence[sql.Composable]] = [values]
            if plan is not None and given_by_some:
                calls.append(fewer)
            plans = [connection.execute(_explained(each)).fetchall() for each in calls]
    except psycopg.Error as error:
        return Route(refused=" ".join(str(error).split())[:200])
    distributed = plan.distributed if plan else ()
    routes = [read_plan("\n".join(line for (line,) in rows), distributed) for rows in plans]
    return Route(
        max(each.tasks for each in routes),
        max(each.steps for each in routes),
        "; ".join(dict.fromkeys(each.refused for each in routes if each.refused)),
    )


def _with_samples(connection: psycopg.Connection, text: str, kinds: list[str]) -> list[str]:
    """Prepare a statement with samples in place of vectors, and return its parameters' types.

    For its EXPLAIN alone, Citus tells a node no type of an extension's parameter.
    """
    kept = ["text" if kind.startswith(_EXTENSION) else kind for kind in kinds]
    for place, kind in enumerate(kinds, start=1):
        if kind.startswith(_EXTENSION):
            value = sql.SQL("{}::{}").format(_sample(kind), sql.SQL(kind)).as_string(connection)
            text = re.sub(rf"\${place}\b", value.replace("\\", r"\\"), text)
    connection.execute(f"PREPARE probe ({', '.join(kept)}) AS {text}".encode())
    return kept


def read_plan(plan: str, distributed: Collection[str] = ()) -> Route:
    """Where a statement goes, by what EXPLAIN says of it.

    Citus refuses some statements only when they run: what a node cannot plan, and rows that would
    come to the coordinator to be inserted, past row-level security. A node that reads a table by
    its own name reads an empty one.
    """
    whole = set(_READ.findall(plan.partition("Task Count")[2])) & set(distributed)
    refused = [words for words in _NOT_RUN if words in plan]
    refused += [f"a node reads {table}, which is empty there" for table in sorted(whole)]
    return Route(
        max((int(tasks) for tasks in _TASKS.findall(plan)), default=0),
        plan.count("Distributed Subplan"),
        "; ".join(refused),
    )


def obstacles(
    connection: psycopg.Connection, statements: Iterable[ServiceStatement], plan: Distribution
) -> dict[str, str]:
    """Statements that Citus would not run, or not send to their user's one shard, and why.

    Of those across users, only the ones that nodes would not understand: Citus writes `CASE column
    WHEN` anew, and may lose what it compares with. An INSERT that reads a table which every node
    has, it sends to all shards.
    """
    volatile = {name for (name,) in connection.execute(_VOLATILE).fetchall()}
    hidden = hidden_reads(connection, plan)
    known: dict[str, set[str]] = {
        name: set() for name in (*plan.distributed, *REFERENCE, *LOCAL, *hidden)
    }
    found = {}
    for statement in statements:
        text = " ".join(statement.text.split())
        changed = set(_CHANGED.findall(text)) & set(plan.distributed)
        if changed and _COMPARED.search(text):
            found[statement.name] = "compares by CASE column WHEN"
        if statement.across:
            continue
        called = set(re.findall(r"(\w+)\(", text))
        named = {table for block in blocks(text) for table, _ in references(block, known)}
        if through := (named | called) & hidden:
            found[statement.name] = f"reads through {', '.join(sorted(through))}"
        elif text.startswith("INSERT") and named & set(REFERENCE) and named - set(REFERENCE):
            found[statement.name] = f"inserts by {', '.join(sorted(named & set(REFERENCE)))}"
        elif named & LOCAL and named - LOCAL:
            found[statement.name] = f"joins {', '.join(sorted(named & LOCAL))} of the coordinator"
        elif changed and called & volatile:
            found[statement.name] = f"updates by {', '.join(sorted(called & volatile))}"
    return found


def _sample(kind: str) -> sql.Composable:
    if kind.endswith("[]"):
        return sql.Literal("{" + '"' + _SAMPLES[kind[:-2]].replace("\\", r"\\") + '"' + "}")
    return sql.Literal(_SAMPLES[kind])


def _explained(values: Sequence[sql.Composable]) -> sql.Composed:
    call = sql.SQL("EXECUTE probe({})" if values else "EXECUTE probe").format(
        *([sql.SQL(", ").join(values)] if values else [])
    )
    return sql.SQL("EXPLAIN (COSTS OFF) {}").format(call)


def _numbered(text: str) -> tuple[str, list[str | int]]:
    """A statement with numbered placeholders, and what these are called."""
    places: dict[str | int, int] = {}

    def number(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        place = places.setdefault(found[1] or len(places), len(places) + 1)
        return f"${place}"

    return _PLACEHOLDER.sub(number, text), list(places)
