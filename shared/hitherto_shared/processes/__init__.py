"""Several processes of one service on one port, so that it uses every core.

    parent ── owns the embedded database, reserves the port, answers no calls
    ├── process 1 ─┐
    ├── process 2 ─┤ each a whole service: port, pool, caches, health
    └── process 3 ─┘

Each listens on the port by itself (SO_REUSEPORT), and the kernel distributes new connections. A
socket pair links parent and process: the parent sends the address of the database, the process
reports that it serves, and its end tells either side that the other one is gone, however it ended.

`port` reserves, `child` is a process's side, `parent` keeps them running, `serving` is what a
service's `__main__` calls.
"""

from hitherto_shared.processes.child import ServingPlan
from hitherto_shared.processes.serving import ProcessSpread, serve_in_processes

__all__ = ["ProcessSpread", "ServingPlan", "serve_in_processes"]
