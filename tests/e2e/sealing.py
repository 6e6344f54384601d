"""Users who encrypt: services with a key, and everything that a database holds, for the tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from hitherto.v1 import memory_pb2
from hitherto.v1 import memory_service_pb2 as pb
from hitherto_extraction.pipeline.failed_attempts import UnusableReplies
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rows import REPLY
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.models import Scope
from hitherto_shared.sealing import load_secret
from tests.e2e.conftest import Services
from tests.e2e.masks import masked
from tests.tenants import tenant_of

KEK = b"e" * 32
ENCRYPTING: dict[str, Any] = {"encryption_key": KEK.hex()}
"""Settings of services that have a key-encryption key."""

_TABLES = """
SELECT n.nspname, c.relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY 1, 2
"""


def keys_of(folder: Path) -> UserKeys:
    """The keys that services with their data in this folder use, as another process opens them."""
    data = folder / "data"
    return UserKeys(LocalWrapper(KEK), KeyStore(data / "user-keys"), load_secret(data / "hash_key"))


async def key_of(services: Services, user: str = "ana") -> UserKey:
    """The key of a user of these services' tenant."""
    return await keys_of(services.folder).open(tenant_of(services.conninfo), user)


def reply_in(row: tuple[Any, ...], key: UserKey, folder: Path) -> str:
    """An unusable reply, opened by its user's key and then by the installation's secret.

    `row` is its job, claim and sealed value.
    """
    job_id, claim_no, sealed = row
    inner = REPLY.open(key, sealed, job_id, claim_no)["sealed_reply"]
    replies = UnusableReplies(load_secret(folder / "data" / "secret"))
    return replies.open(Scope(key.tenant_id, key.user_id), UUID(str(job_id)), inner)


def key_files(folder: Path, tenant_id: str = "") -> list[Path]:
    """The files of the keys of users: of one tenant, or of all."""
    files = (folder / "data" / "user-keys").rglob("*.json")
    return [file for file in files if f'"tenant_id": "{tenant_id}' in file.read_text()]


# What is computed of other columns, COPY of a table leaves out; COPY of a query does not.
_COPY = "COPY (SELECT * FROM {}) TO STDOUT"


@dataclass(frozen=True, slots=True)
class Cell:
    table: str
    column: str
    text: str


def dump(superuser_conninfo: str) -> Iterator[Cell]:
    """Every value of every table that the catalogue names, as COPY writes it."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        for schema, table in connection.execute(_TABLES.encode()).fetchall():
            name = sql.Identifier(schema, table)
            columns = [
                each.name
                for each in connection.execute(
                    sql.SQL("SELECT * FROM {} LIMIT 0").format(name)
                ).description
                or ()
            ]
            with connection.cursor().copy(sql.SQL(_COPY).format(name)) as copied:
                # Not splitlines: a text may hold other ends of lines than COPY writes.
                for line in b"".join(copied).decode().split("\n")[:-1]:
                    for column, value in zip(columns, line.split("\t"), strict=True):
                        yield Cell(table, column, _plain(value))


def _plain(value: str) -> str:
    """A value as it was before COPY escaped it; bytes as the text that they may hide."""
    text = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), value)
    if re.fullmatch(r"\\?x(?:[0-9a-f]{2})+", text):
        text += "\n" + bytes.fromhex(text.partition("x")[2]).decode("utf-8", "replace")
    return text


def holding(cells: Iterable[Cell], words: Iterable[str]) -> dict[str, set[tuple[str, str]]]:
    """In which columns each word stands, in whatever case; only words that stand somewhere."""
    wanted = [(word, word.casefold()) for word in words]
    found: dict[str, set[tuple[str, str]]] = {}
    for cell in cells:
        folded = cell.text.casefold()
        for word, sought in wanted:
            if sought in folded:
                found.setdefault(word, set()).add((cell.table, cell.column))
    return found


async def change_profile(services: Services, *, user: str = "ana", **values: Any) -> Any:
    """UpdateProfile; free JSON as dicts."""
    request = pb.UpdateProfileRequest(user_id=user)
    for name, value in values.items():
        if isinstance(value, dict):
            getattr(request.profile, name).update(value)
        elif isinstance(value, list):
            getattr(request.profile, name).extend(value)
        else:
            setattr(request.profile, name, value)
    return (await services.memory.UpdateProfile(masked(request))).profile


PERSONAL = memory_pb2.MEMORY_TYPE_PERSONAL
