"""TLS of a channel: the files it takes, and the credentials made from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for a channel that is encrypted.

    Attributes:
        authority: Who signed the services' certificates; None for no TLS.
        certificate: The caller's own certificate chain, where the services ask for one.
        key: Its private key.
    """

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials | None:
        """What a channel is made with; None for no TLS.

        Raises:
            ValueError: A file cannot be read, or one is there without the other that it needs.
        """
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "a certificate goes with its key: set HITHERTO_TLS_CLIENT_CERTIFICATE_FILE and "
                "HITHERTO_TLS_CLIENT_KEY_FILE, or neither"
            )
        if self.authority is None:
            if self.certificate is not None:
                raise ValueError("a certificate is shown over TLS only: set HITHERTO_TLS_CA_FILE")
            return None
        return grpc.ssl_channel_credentials(
            _read(self.authority, "TLS authority", "HITHERTO_TLS_CA_FILE"),
            _read(self.key, "key", "HITHERTO_TLS_CLIENT_KEY_FILE") if self.key else None,
            _read(self.certificate, "certificate", "HITHERTO_TLS_CLIENT_CERTIFICATE_FILE")
            if self.certificate
            else None,
        )


def _read(file: Path, what: str, setting: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(
            f"the file with the {what} cannot be read ({error.strerror}): check "
            f"{setting}, which names {file}"
        ) from None
