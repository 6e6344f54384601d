"""The secrets that sign requests to webhooks: shown once, and stored sealed."""

from __future__ import annotations

import secrets
from uuid import UUID

from hitherto_shared.sealing import BrokenToken, Sealer

_PREFIX = "whsec_"


class WebhookSecrets:
    """Creates, seals and opens the secrets of one deployment."""

    def __init__(self, secret: bytes) -> None:
        """`secret` is the deployment's."""
        self._sealer = Sealer(secret, "webhook")

    @staticmethod
    def create() -> str:
        """A new secret."""
        return _PREFIX + secrets.token_urlsafe(32)

    def seal(self, secret: str, tenant_id: str, webhook_id: UUID) -> str:
        """The secret as it is stored with this webhook only."""
        return self._sealer.seal({"s": secret}, [tenant_id, str(webhook_id)])

    def open(self, token: str, tenant_id: str, webhook_id: UUID) -> str | None:
        """A stored secret; None if it was sealed by another deployment or for another webhook."""
        try:
            return str(self._sealer.open(token, [tenant_id, str(webhook_id)])["s"])
        except BrokenToken:
            return None
