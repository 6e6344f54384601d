"""Selects the system user that Postgres runs as: our own, or an unprivileged one for root."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hitherto_shared.database.embedded.layout import DataFolderLayout, EmbeddedPostgresError

if sys.platform != "win32":
    import pwd

logger = logging.getLogger("hitherto.database.embedded")

SYSTEM_USER = "hitherto-db"


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """The user that the programs of Postgres run as.

    Attributes:
        switch: Whether we are root and must become this user for everything that Postgres does.
    """

    name: str
    uid: int
    gid: int
    switch: bool

    def run(
        self,
        command: list[str],
        *,
        environment: dict[str, str] | None = None,
        errors_to: IO[bytes] | int = subprocess.PIPE,
        new_session: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `command` as this user, with nothing of our environment, and wait for its end.

        Raises:
            OSError: The program is missing or inaccessible to this user.
        """
        return subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors_to,
            # No PGDATA and the like, and none of our secrets, may reach the server.
            env={"PATH": os.defpath, "LC_ALL": "C", **(environment or {})},
            cwd="/",
            umask=0o077,
            start_new_session=new_session,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=[] if self.switch else None,
        )

    def own(self, path: Path) -> None:
        """Give `path`, which we have just created, to this user."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        """Whether this user can enter `folder` (checked by the kernel, which knows ACLs)."""
        if not self.switch:
            return os.access(folder, os.X_OK)
        return self.run(["/bin/sh", "-c", 'test -x "$1"', "sh", str(folder)]).returncode == 0

    def require_entry(self, folder: Path) -> None:
        """Refuse a data folder that this user cannot reach; modes are never changed for it."""
        if self.can_enter(folder):
            return
        closed = next(p for p in (*reversed(folder.parents), folder) if not self.can_enter(p))
        raise EmbeddedPostgresError(
            f"the embedded Postgres runs as the user {self.name}, who cannot enter {closed}; set"
            f" HITHERTO_DATA_DIR to a folder that other users can reach (default for root:"
            " /var/lib/hitherto), or DATABASE_URL to use another Postgres"
        )


def account_for(layout: DataFolderLayout) -> SystemAccount:
    """The user for the server of this data folder.

    For root, it is the owner of an existing folder, so that a folder created by an ordinary user
    stays theirs, and otherwise a dedicated system user.
    """
    me = os.geteuid()
    owner = next(
        (path.stat().st_uid for path in (layout.cluster, layout.folder) if _is_others(path)), 0
    )
    if me != 0:
        if owner not in {0, me} or (layout.cluster.exists() and layout.cluster.stat().st_uid != me):
            raise EmbeddedPostgresError(
                f"the database in {layout.folder} belongs to another user; start this program as"
                " that user, or set HITHERTO_DATA_DIR to a folder of your own"
            )
        return SystemAccount(_name(me), me, os.getegid(), switch=False)
    if owner != 0:
        return SystemAccount(_name(owner), owner, _group(owner), switch=True)
    entry = _system_user()
    return SystemAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _is_others(path: Path) -> bool:
    return path.exists() and path.stat().st_uid != 0


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _system_user() -> pwd.struct_passwd:
    found = _find(SYSTEM_USER)
    if found is not None:
        return found
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is not None:
        command = [useradd, "--system", "--user-group", "--no-create-home"]
        command += ["--home-dir", "/nonexistent", "--shell", "/bin/false", SYSTEM_USER]
        give_up = time.monotonic() + 10
        # Only one useradd runs at a time; another one's lock is gone within moments.
        while found is None and time.monotonic() < give_up:
            done = subprocess.run(command, check=False, capture_output=True)
            found = _find(SYSTEM_USER)
            if done.returncode not in {0, 1}:
                break
            if found is None:
                time.sleep(0.2)
        if found is not None:
            logger.info("created the system user %s for Postgres", SYSTEM_USER)
            return found
    found = _find("nobody")
    if found is None:
        raise EmbeddedPostgresError(
            "Postgres refuses to run as root, and there is neither useradd nor a user nobody here;"
            f" create a user {SYSTEM_USER}, start this program as an ordinary user, or set"
            " DATABASE_URL"
        )
    logger.warning("no system user could be created: the embedded Postgres runs as nobody")
    return found
