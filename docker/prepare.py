"""Prepares the database of docker-compose.yml: roles, logins, schema, secret, one API key.

Runs once per `docker compose up`, before the services, and changes nothing that is there already,
but for the passwords of the services' logins, which become those of the environment. It alone holds
the administrator's password.

    python prepare.py            prepare
    python prepare.py show-key   print the API key that was made

Environment: DATABASE_URL (of an administrator), HITHERTO_RETRIEVAL_PASSWORD,
HITHERTO_EXTRACTION_PASSWORD, HITHERTO_SECRET_FILE, HITHERTO_API_KEY_FILE; CITUS_WORKERS where
DATABASE_URL is the coordinator of a cluster: the workers' host names, separated by spaces.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hitherto_shared.auth.api_keys import create_key
from hitherto_shared.auth.principal import DEFAULT_TENANT, PROFILES_MANAGE
from hitherto_shared.database.bootstrap import bootstrap
from hitherto_shared.database.connect import (
    OWNER,
    connected,
    logging_in,
    owner_password,
    with_role,
)
from hitherto_shared.database.distribution import node_passwords
from hitherto_shared.database.faults import described
from hitherto_shared.database.logins import PASSWORD_VARIABLES, passwords_for, refused
from hitherto_shared.database.migrate import MigrationError, migrate
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.sealing import load_secret

KEY_SCOPES = ("read", "write")
KEY_CAPABILITIES = (PROFILES_MANAGE,)

logger = logging.getLogger("hitherto.prepare")


def prepare(
    conninfo: str,
    *,
    retrieval_password: str,
    extraction_password: str,
    secret_file: Path,
    api_key_file: Path,
    workers: Sequence[str] = (),
) -> None:
    """Do what is still missing.

    Args:
        conninfo: The database and an administrator's login.
        retrieval_password: For the login of the retrieval service.
        extraction_password: For the logins of the extraction service.
        secret_file: Secret behind the tokens that both services hand out; made if missing.
        api_key_file: Receives a new API key (mode 0600) if it does not exist.
        workers: Hosts (`name` or `name:port`) on which Citus keeps the rows; the administrator has
            the same password there.
    """
    passwords = passwords_for(
        conninfo, retrieval=retrieval_password, extraction=extraction_password
    )
    nodes = _cluster(conninfo, workers)
    bootstrap(conninfo, passwords=passwords)
    if refused(conninfo, passwords):
        # Nobody but this file's services has these logins: the server is compose's own.
        logger.info("the passwords of the services' logins have changed; setting them")
        bootstrap(conninfo, passwords=passwords, set_passwords=True)
    for node in nodes:
        _run(node, node_passwords([(OWNER, owner_password(conninfo)), *passwords.items()]))
    migrate(conninfo)
    load_secret(secret_file)
    if not api_key_file.exists():
        extraction = logging_in(conninfo, "hitherto_maintenance", extraction_password)
        _write_key(api_key_file, asyncio.run(_create_key(extraction)))
        logger.info("made an API key: docker compose run --rm migrate show-key")


def _cluster(conninfo: str, workers: Sequence[str]) -> list[str]:
    """Make the server the coordinator of these workers; all nodes, or none without workers."""
    if not workers:
        return []
    given = conninfo_to_dict(conninfo)
    hosts = [worker.partition(":") for worker in workers]
    ports = [int(port or given.get("port") or 5432) for _, _, port in hosts]
    added = [(name, port) for (name, _, _), port in zip(hosts, ports, strict=True)]
    nodes = [conninfo, *(make_conninfo(conninfo, host=name, port=port) for name, port in added)]
    for node in nodes:
        # As whom the nodes add each other, and create roles.
        _run(node, node_passwords([(str(given["user"]), str(given["password"]))]))
    with connected(conninfo) as connection:
        own = [given["host"], int(given.get("port") or 5432)]
        connection.execute("SELECT citus_set_coordinator_host(%s, %s)", own)
        for place in added:
            connection.execute("SELECT citus_add_node(%s, %s)", place)
    return nodes


def _run(conninfo: str, statements: str) -> None:
    with connected(conninfo) as connection:
        connection.execute(statements.encode())


async def _create_key(conninfo: str) -> str:
    maintenance = with_role(conninfo, "hitherto_maintenance", application="hitherto-prepare")
    async with await PipelineConnection.connect(maintenance, autocommit=True) as connection:
        return await create_key(
            connection,
            tenant_id=DEFAULT_TENANT,
            name="compose",
            scopes=list(KEY_SCOPES),
            capabilities=KEY_CAPABILITIES,
        )


def _write_key(path: Path, key: str) -> None:
    # Complete or not there: a half-written file would be taken for a key at the next start.
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key + "\n")
    draft.rename(path)


def main() -> None:
    """Entry point; see the module docstring."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    key_file = Path(os.environ["HITHERTO_API_KEY_FILE"])
    if sys.argv[1:] == ["show-key"]:
        print(key_file.read_text("ascii").strip())
        return
    if sys.argv[1:]:
        raise SystemExit("usage: prepare.py [show-key]")
    try:
        prepare(
            os.environ["DATABASE_URL"],
            retrieval_password=os.environ[PASSWORD_VARIABLES[0]],
            extraction_password=os.environ[PASSWORD_VARIABLES[1]],
            secret_file=Path(os.environ["HITHERTO_SECRET_FILE"]),
            api_key_file=key_file,
            workers=os.environ.get("CITUS_WORKERS", "").split(),
        )
    except (MigrationError, psycopg.Error, PermissionError, ValueError) as error:
        raise SystemExit(f"the database cannot be prepared: {described(error)}") from None


if __name__ == "__main__":
    main()
