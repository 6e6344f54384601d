"""Sends one change to one receiver: a signed POST, limited in time, that follows no redirect.

The signature covers the time of the attempt and the body, so that a receiver can refuse requests
that somebody repeats: header `Hitherto-Signature: t=<unix seconds>,v1=<hex>`, where the hex digits
are HMAC-SHA256 with the secret over `<unix seconds>.<body>`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import ssl
import time
from dataclasses import dataclass
from uuid import UUID

import aiohttp
from yarl import URL

from hitherto_extraction.telling.addresses import (
    AddressRefused,
    CheckedResolver,
    is_literal,
    is_public,
)
from hitherto_shared.sealing import BrokenToken, Sealer

SIGNATURE_HEADER = "Hitherto-Signature"
DELIVERY_HEADER = "Hitherto-Delivery"
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class ReceiverAnswer:
    """How a receiver answered: its HTTP status, 0 without one, and what is wrong with it."""

    status: int
    error: str

    @property
    def arrived(self) -> bool:
        """Whether the receiver has taken the change."""
        return not self.error

    @property
    def gone(self) -> bool:
        """Whether the receiver says that it will never take one again."""
        return self.status == 410


def sign(secret: str, body: bytes, at: int) -> str:
    """The value of the signature header of a body sent at this unix time."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Sender:
    """Sends requests until it is closed; a connection serves one request.

    Of an answer only the status is read. No proxy of the environment is used: the addresses that
    are checked are those that are reached.
    """

    def __init__(self, *, timeout: float, private: bool) -> None:
        """`timeout` is for a request, from the resolution of the name to the status.

        `private`: whether receivers may be in private networks.
        """
        self._timeout = timeout
        self._private = private
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, url: str, secret: str, delivery_id: str, body: bytes) -> ReceiverAnswer:
        """Send a body, and say how it was answered."""
        try:
            async with asyncio.timeout(self._timeout):
                status = await self._post(URL(url), secret, delivery_id, body)
        except TimeoutError:
            return ReceiverAnswer(0, f"no answer within {self._timeout:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return ReceiverAnswer(0, _why(error))
        if 200 <= status < 300:
            return ReceiverAnswer(status, "")
        redirects = 300 <= status < 400
        why = "redirects are not followed" if redirects else "the status must be 200 to 299"
        return ReceiverAnswer(status, f"answered with {status}: {why}")

    async def _post(self, url: URL, secret: str, delivery_id: str, body: bytes) -> int:
        # The resolver is asked for names only.
        if not self._private and is_literal(url.raw_host or "") and not is_public(url.host or ""):
            raise AddressRefused
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "hitherto",
            DELIVERY_HEADER: delivery_id,
            SIGNATURE_HEADER: sign(secret, body, int(time.time())),
        }
        response = await self._open().post(url, data=body, headers=headers, allow_redirects=False)
        # Closes the connection: the body is not read, however long it is.
        response.close()
        return response.status

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=CheckedResolver(private=self._private),
                    use_dns_cache=False,
                    force_close=True,
                    limit=_CONNECTIONS,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
            )
        return self._session


def _why(error: Exception) -> str:
    """An error in words that name no address of this network."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return f"refused: {cause}"
        if isinstance(cause, ssl.SSLError | ssl.CertificateError):
            return "TLS failed: the receiver's certificate cannot be verified"
        cause = cause.__cause__ or getattr(cause, "os_error", None)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectionError):
        return "cannot connect, or the connection was lost"
    return "the answer is not HTTP"


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
