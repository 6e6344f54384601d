"""The Python client of Hitherto.

Example:
    m = Hitherto()
    m.save_memory("ana", "Ana lives in Porto.")
    m.get_context("ana", "Where does she live?").prompt_block

`AsyncHitherto` has the same methods for asyncio. What they return is in `hitherto_client.results`,
the dicts that they take in `hitherto_client.inputs`, and the words for enumerated values in
`hitherto_client.words`.
"""

from hitherto_client._async.calling import AsyncPages
from hitherto_client._async.client import AsyncHitherto
from hitherto_client._sync.calling import Pages
from hitherto_client._sync.client import Hitherto
from hitherto_client.batches import Progress
from hitherto_client.calls import RetryPolicy
from hitherto_client.errors import HithertoCallError, Violation
from hitherto_client.export import ExportBroken, Received

__all__ = [
    "AsyncHitherto",
    "AsyncPages",
    "ExportBroken",
    "Hitherto",
    "HithertoCallError",
    "Pages",
    "Progress",
    "Received",
    "RetryPolicy",
    "Violation",
]
