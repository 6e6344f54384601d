"""The generated passwords of one server, kept in `embedded.json`."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass

from hitherto_shared.database.embedded.layout import DataFolderLayout, EmbeddedPostgresError
from hitherto_shared.private_file import NotPrivate, NotRegular, open_private

_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """Passwords of the superuser `postgres` and of the services' login role `hitherto`."""

    superuser_password: str
    login_password: str

    def __repr__(self) -> str:
        return "Credentials(...)"


def credentials_of(layout: DataFolderLayout) -> Credentials:
    """Read the passwords, or generate them before the cluster exists (under the startup lock).

    Raises:
        EmbeddedPostgresError: The file is missing or damaged although there is a cluster, or other
            users may read it, or it is no file.
    """
    try:
        return _read(layout)
    except FileNotFoundError:
        if layout.cluster.exists():
            raise EmbeddedPostgresError(
                f"{layout.credentials} with the database's passwords is missing; restore it from"
                f" a backup, or move {layout.cluster} away to start with an empty database"
            ) from None
    credentials = Credentials(
        secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES)
    )
    _write(layout, credentials)
    return credentials


def _read(layout: DataFolderLayout) -> Credentials:
    try:
        with open_private(layout.credentials) as file:
            return Credentials(**json.load(file))
    except (NotPrivate, NotRegular) as error:
        raise EmbeddedPostgresError(str(error)) from None
    except PermissionError as error:
        raise EmbeddedPostgresError(
            f"{layout.credentials} belongs to another user; start this program as that user, or"
            " set HITHERTO_DATA_DIR to a folder of your own"
        ) from error
    except (ValueError, TypeError) as error:
        raise EmbeddedPostgresError(
            f"{layout.credentials} is damaged; restore it from a backup"
        ) from error


def _write(layout: DataFolderLayout, credentials: Credentials) -> None:
    draft = layout.credentials.with_suffix(".new")
    with os.fdopen(layout.open_private(draft, os.O_WRONLY | os.O_TRUNC), "w") as file:
        json.dump(asdict(credentials), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(layout.credentials)
