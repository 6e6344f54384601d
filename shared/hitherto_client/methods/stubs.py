"""The stubs that all parts of the client use."""

from __future__ import annotations

from hitherto_client._sync.connection import Connection
from hitherto_client.calls import Endpoint, RetryPolicy


class Stubs(Connection):
    """The generated stubs of both services; HithertoClient connects them."""

    @property
    def _retry(self) -> RetryPolicy:
        return self.target.retry

    def _writes_at(self) -> Endpoint:
        return self.target.extraction
