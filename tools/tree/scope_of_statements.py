"""Every statement says whose rows it is about: by tenant and, where the table has it, by user."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hitherto_shared.database.fragments import expanded
from tools.tree.whole_statements import ROOT, product

DATABASE = ROOT / "shared/hitherto_shared/database"
ACROSS_USERS = {
    "auth/api_keys": "_FIND _LIST _REVOKE",
    "auth/departments": "_DEPARTMENTS",
    "corpora/documents": "_PENDING _WITHOUT _EXPECT",
    "corpora/memories": "_PENDING _WITHOUT _EXPECT",
    "corpora/messages": "_PENDING _WITHOUT _EXPECT _LEFT",
    "corpora/summaries": "_PENDING _WITHOUT _EXPECT _LEFT",
    "database/audit_log": "_CLOSE_HOURS",
    "embeddings/active_embedder": "_HAS_VECTORS",
    "queue/attempts": "_END _WAIT_OUT _SPENT",
    "queue/claims": "_CLAIM _HOLD _PROGRESS",
    "queue/depth": "_DEPTH",
    "queue/enqueueing": "_ENQUEUE_FOR_SLOT",
    "queue/jobs": "_GET _OWN_RANGE _RETRY _RETRY_ALL _LATEST_BACKFILL",
    "queue/leases": "_RENEW _RENEW_ONCE_FREE",
    "queue/limit": "_COUNT",
    "queue/waking": "_WAKE",
    "storage/access": "_COUNT",
    "storage/audit": "_PAGE _UNSIGNED",
    "storage/consolidation": "_CROWDED_USERS",
    "storage/changes": "_WAITING _NUMBER _DELETE_OLD _OF_TENANT",
    "storage/conversations": "_IDLE",
    "storage/deliveries": "_INSERT _CLAIM _ERASED _PAGE _WEBHOOK_OF _RETRY _RETRY_DEAD",
    "storage/documents": "_EXPIRED",
    "storage/erased": "_OTHER_KEYS _UNNAME",
    "storage/erasure": "_CUT_LISTS _LISTED",
    "storage/exports": "_CALLS _LISTS",
    "storage/idempotency": "_TAKE _EXPIRE",
    "storage/people": "_REVISIONS _PROFILE_PAGE",
    "storage/reembedding": "_AWAIT_RECENT _COUNT",
    "storage/reindexing": "_FIND_TO_SWEEP",
    "storage/retention": "_DUE _COUNT _ANY_LIMIT",
    "storage/schedules": "_TENANTS _TENANTS_OF_NODES _LAST",
    "storage/sealing": "_LEAVE_WITHOUT_VECTORS",
    "storage/sessions": "_DROP_CONTEXTS _DROP_RECENT _DROP_ACTIONS",
    "storage/unusable_replies": "_FIND _EXPIRE",
    "storage/upkeep": "_LOOK _LOCK_USERS _COUNT_FADING _COUNT_SURPLUS _CROWDED",
    "storage/usage": "_TODAY _TODAY_OF_ALL _TAKE_QUESTIONS",
    "storage/webhooks": "_COUNT _PAGE _DELETE_DELIVERIES _DELETE _ENABLE _WANTED _OPEN "
    "_SUCCEEDED _FAILED",
}
"""Statements that are not about one user of one tenant, by module.

Those of the queue name a job by its id and the number of its claim, or are the sweeps that claim,
wake and count jobs; those of `upkeep`, `retention`, `schedules`, re-embedding and what waits for a
vector walk over users on the role hitherto_maintenance; audit, API keys, cost and idempotency keys
belong to a tenant and not to one user, and so do webhooks; lists of users are a tenant's.
"""

TOKEN = re.compile(r"'(?:[^']|'')*'|%\(\w+\)[sb]|[A-Za-z_][\w.]*|[(),;=<>]|\S")
SET_OPERATIONS = {"UNION", "EXCEPT", "INTERSECT"}
NO_ALIAS = {
    "CROSS", "DO", "DEFAULT", "EXCEPT", "FETCH", "FOR", "FULL", "GROUP", "HAVING", "INNER",
    "INTERSECT", "JOIN", "LEFT", "LIMIT", "NATURAL", "OFFSET", "ON", "ORDER", "RETURNING", "RIGHT",
    "SELECT", "SET", "UNION", "USING", "VALUES", "WHERE", "WINDOW", "WITH",
}  # fmt: skip


@dataclass
class QueryBlock:
    """One query of a statement: its own words, without those of the queries within it."""

    words: list[str] = field(default_factory=list)


def blocks(statement: str) -> list[QueryBlock]:
    """The queries of a statement, each arm of a set operation by itself."""
    text = re.sub(r"--[^\n]*|/\*.*?\*/", " ", statement, flags=re.DOTALL)
    found = [QueryBlock()]
    open_blocks: list[tuple[QueryBlock, bool]] = [(found[0], True)]
    tokens = TOKEN.findall(text)
    for place, token in enumerate(tokens):
        following = tokens[place + 1].upper() if place + 1 < len(tokens) else ""
        if token == "(":
            if following in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "("):
                found.append(QueryBlock())
                open_blocks[-1][0].words.append("(query)")
                open_blocks.append((found[-1], True))
            else:
                open_blocks[-1][0].words.append(token)
                open_blocks.append((open_blocks[-1][0], False))
        elif token == ")":
            _, own = open_blocks.pop()
            if not own:
                open_blocks[-1][0].words.append(token)
        elif token.upper() in SET_OPERATIONS:
            found.append(QueryBlock())
            own = open_blocks[-1][1]
            open_blocks[-1] = (found[-1], own)
        elif (
            token.upper() == "SELECT"
            and open_blocks[-1][0].words
            and (open_blocks[-1][0].words[0].upper() == "WITH")
        ):
            # What follows the common table expressions is a query of its own.
            found.append(QueryBlock())
            open_blocks[-1] = (found[-1], open_blocks[-1][1])
            found[-1].words.append(token)
        else:
            open_blocks[-1][0].words.append(token)
    return found


def references(block: QueryBlock, known: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """The tables and views that a query names itself, each with its alias."""
    words = block.words
    for place, word in enumerate(words):
        table = word.lower()
        if table not in known or place == 0:
            continue
        before = words[place - 1].upper()
        if before not in ("FROM", "JOIN", "INTO", "UPDATE", "USING", ","):
            continue
        if before == "," and "FROM" not in {earlier.upper() for earlier in words[:place]}:
            continue
        if words[place + 1 : place + 2] == ["("] and before != "INTO":
            continue
        after = [*words[place + 1 : place + 3], "", ""]
        if after[0].upper() == "AS":
            yield table, after[1]
        elif re.fullmatch(r"[A-Za-z_]\w*", after[0]) and after[0].upper() not in NO_ALIAS:
            yield table, after[0]
        else:
            yield table, table


def tied(block: QueryBlock, alias: str, column: str) -> bool:
    """Whether a query itself names the tenant or the user whose rows it is about.

    As a parameter, not as what another query says: an engine that distributes rows by user plans
    each query by itself.
    """
    text = " ".join(block.words)
    names = rf"(?:{re.escape(alias)}\.{column}|(?<![.\w]){column})"
    return bool(
        re.search(rf"{names} = %\({column}\)s", text)
        or re.search(rf"(?:\(|,) {names} (?:,|\))", text)
    )


@cache
def tables() -> dict[str, set[str]]:
    """Which of tenant and user each table and view has."""
    found: dict[str, set[str]] = {}
    for path in (
        *sorted(DATABASE.glob("schema/*.sql")),
        *sorted(DATABASE.glob("migrations/*.sql")),
    ):
        for name, body in re.findall(
            r"CREATE TABLE (\w+) \((.*?)\n\)[^\n]*;", path.read_text("utf-8"), re.DOTALL
        ):
            found[name] = {
                c for c in ("tenant_id", "user_id") if re.search(rf"^    {c} ", body, re.M)
            }
        for name, body in re.findall(
            r"CREATE VIEW (\w+) .*?AS\nSELECT (.*?)\nFROM", path.read_text("utf-8"), re.DOTALL
        ):
            found[name] = {c for c in ("tenant_id", "user_id") if re.search(rf"\b{c}\b", body)}
    return {name: columns for name, columns in found.items() if columns}


def missing(statement: str, tables: dict[str, set[str]]) -> set[str]:
    """The columns that a statement leaves open for some table, and parameters that it lacks."""
    lacks = set()
    named = False
    for block in blocks(statement):
        for table, alias in references(block, tables):
            named = True
            lacks |= {column for column in tables[table] if not tied(block, alias, column)}
    if named:
        lacks |= {
            column
            for column in ("tenant_id", "user_id")
            if f"%({column})s" not in statement
            and any(
                column in tables[table]
                for b in blocks(statement)
                for table, _ in references(b, tables)
            )
        }
    return lacks


def statements() -> Iterator[tuple[str, str, str]]:
    """The statements of the product: folder and module, name, text."""
    for path, tree in product().items():
        place = "/".join(Path(path).with_suffix("").parts[-2:])
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
                and re.match(
                    r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b", node.value.value
                )
            ):
                yield place, node.targets[0].id, expanded(node.value.value)


def broken() -> Iterator[str]:
    """Statements that leave open whose rows they are about.

    A statement comes onto the list only if it is to read or write rows of more than one user.
    """
    known = tables()
    across = {(place, name) for place, names in ACROSS_USERS.items() for name in names.split()}
    found = {(place, name) for place, name, statement in statements() if missing(statement, known)}
    for place, name in sorted(found - across):
        yield f"{place} {name}: name tenant and user of every table"
    for place, name in sorted(across - found):
        yield f"{place} {name}: take it off the list of statements across users"


def main() -> int:
    """Print statements of a name, such as `memories.page`, as Postgres gets them; or all names."""
    asked = sys.argv[1:]
    named = [
        (f"{place.rpartition('/')[2]}.{name.strip('_').lower()}", text)
        for place, name, text in statements()
    ]
    found = [text for name, text in named if name in asked]
    print("\n".join(found or sorted({name for name, _ in named})))
    return 0 if found or not asked else 1


if __name__ == "__main__":
    sys.exit(main())
