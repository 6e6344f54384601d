"""The command behind `make check-citus`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import psycopg

from hitherto_shared.database.connect import logging_in, with_role
from hitherto_shared.database.logins import PASSWORD_VARIABLES, passwords_for
from tools.citus.routes import Route, ServiceStatement, obstacles, route, service_statements
from tools.citus.schema_rules import (
    Distribution,
    broken_rules,
    hidden_reads,
    policies_by_setting,
)

_DISTRIBUTED = """
SELECT count(*) FROM pg_dist_partition WHERE logicalrelid = 'hitherto.users'::regclass
"""

_IN_STEPS = """
storage/changes._OF_USER storage/clearing._FORGET storage/consolidation._COPY_MENTIONS
storage/editing._WRITE storage/mentions._MENTION storage/retention._OUTLIVED_MESSAGES
storage/upkeep._ARCHIVE storage/users._LOCK
""".split()
"""What goes to the user's shard in more than one step, with the results in between."""
_TO_ALL_SHARDS = """
storage/imported._TELL storage/imported._TELL_PROFILE storage/sealing._FIND_USERS
database/examination._ENCRYPTING
""".split()
"""What all shards are asked, of which one or few have anything to do."""
_NOT_ASKED = """
storage/keyword_index._APPEND storage/keyword_index._APPEND_PASSAGES storage/schedules._TENANTS
storage/access._COUNT
""".split()
"""What another statement stands for on a cluster, and one whose plan Citus makes only to run it."""


def main() -> int:
    """Check the database in DATABASE_URL; the exit code is 1 if something does not suit Citus."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        print("usage: make check-citus DATABASE_URL=postgresql://administrator@host/database")
        return 2
    plan = Distribution()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("SET search_path = hitherto, public")
        failed = _rules(connection, plan)
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchone():
            return _routed(connection, plan, url) or failed
        print("This database has no Citus: what follows is what can be seen without it.")
        return _foreseen(connection, plan) or failed


def _rules(connection: psycopg.Connection, plan: Distribution) -> int:
    broken = broken_rules(connection, plan)
    print(
        "\n".join([f"{len(plan.distributed)} tables by user; rules broken: {len(broken)}", *broken])
    )
    return 1 if broken else 0


def _routed(connection: psycopg.Connection, plan: Distribution, url: str) -> int:
    """What Citus makes of every statement, asked by the login that sends it."""
    if connection.execute(_DISTRIBUTED).fetchone() == (0,):
        print("The tables are not distributed yet: run hitherto-migrate.")
        return 1
    wrong = 0
    with ExitStack() as stack:
        logins = [
            stack.enter_context(psycopg.connect(conninfo, autocommit=True, prepare_threshold=None))
            for conninfo in conninfos_of_logins(url)
        ]
        for statement in service_statements(connection, plan):
            to = _route_of_login(logins, statement, plan)
            if to.to_one_place:
                continue
            if statement.name in _NOT_ASKED:
                continue
            known = statement.across or statement.name in _TO_ALL_SHARDS
            if to.refused or not (known or (to.tasks <= 1 and statement.name in _IN_STEPS)):
                wrong += 1
                verdict = "WRONG"
            else:
                verdict = "across users" if statement.across else "known"
            print(
                f"{verdict}: {statement.name}: "
                f"{to.refused or f'{to.tasks} tasks, {to.steps} steps before'}"
            )
    print(f"{wrong} statements are refused, or leave the shard of their user unexpectedly")
    return 1 if wrong else 0


def conninfos_of_logins(url: str) -> list[str]:
    """The services' logins, with the passwords that `hitherto-migrate` gives them."""
    retrieval, extraction = (os.environ.get(name) or None for name in PASSWORD_VARIABLES)
    passwords = passwords_for(url, retrieval=retrieval, extraction=extraction)
    return [
        with_role(logging_in(url, role, password), role, application="check-citus")
        for role, password in passwords.items()
    ]


def _route_of_login(
    logins: Sequence[psycopg.Connection], statement: ServiceStatement, plan: Distribution
) -> Route:
    """Where a statement goes for the first login that may send it."""
    for login in logins:
        to = route(login, statement, plan)
        if "permission denied" not in to.refused:
            return to
    return to


def _foreseen(connection: psycopg.Connection, plan: Distribution) -> int:
    """What Citus would not route, as far as the text and the catalogue tell."""
    statements = list(service_statements(connection, plan))
    unplanned = [
        f"{each.name}: {to.refused}"
        for each in statements
        if (to := route(connection, each)).refused
    ]
    foreseen = obstacles(connection, statements, plan)
    hidden, policies = hidden_reads(connection, plan), policies_by_setting(connection, plan)
    print(f"{len(statements)} statements, {sum(each.across for each in statements)} across users")
    for title, lines in (
        ("not planned by Postgres", unplanned),
        ("not to one shard", [f"{name}: {why}" for name, why in foreseen.items()]),
        ("functions over distributed tables, and views that call them", sorted(hidden)),
        ("policies by a setting of the session", sorted(policies)),
    ):
        print("\n".join([f"{title}: {len(lines)}", *(f"  {line}" for line in lines)]))
    return 1 if unplanned or foreseen or hidden or policies else 0


if __name__ == "__main__":
    sys.exit(main())
