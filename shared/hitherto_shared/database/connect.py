"""How a connection of ours looks: which role it plays, which schema it sees, how long it waits."""

from __future__ import annotations

from typing import Literal

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Role = Literal[
    "hitherto_read",
    "hitherto_write",
    "hitherto_maintenance",
    "hitherto_removal",
    "hitherto_owner",
]

SCHEMA = "hitherto"


def with_role(
    conninfo: str, role: Role, *, application: str, statement_timeout_ms: int = 30_000
) -> str:
    """`conninfo` for a session that plays `role` from its first statement on.

    The role is a start-up parameter and not a SET, so that no statement can ever run as the login
    role, and a pool's reset returns to it.
    """
    options = str(conninfo_to_dict(conninfo).get("options") or "")
    ours = (
        f" -c role={role} -c search_path={SCHEMA},public -c timezone=UTC"
        f" -c statement_timeout={statement_timeout_ms} -c lock_timeout=5000"
        " -c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on"
    )
    return make_conninfo(
        conninfo,
        options=(options + ours).strip(),
        application_name=application,
        connect_timeout=5,
    )
