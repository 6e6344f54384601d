"""What users see of what belongs to them: settings, exports, erasure, and who did what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hitherto_client.words import SecretHandling


@dataclass(frozen=True, slots=True)
class UserSettings:
    """The effective settings of a user."""

    memory_enabled: bool
    """False: nothing is read or learnt about the user."""
    learning_enabled: bool
    """False: nothing is learnt from conversations, which are still stored and searched."""
    retention_days: int
    """Days after which an unused memory is removed; 0 for never."""
    message_retention_days: int
    """Days after which messages are removed; 0 for never."""
    encrypt_sensitive: bool
    """True: texts are stored encrypted with a key of the user's own."""
    time_zone: str
    """The IANA time zone of relative dates such as "tomorrow"."""
    redact_secrets: SecretHandling
    """What happens to keys, tokens, passwords and card numbers before anything is stored: `redact`,
    `seal` (also keep the message, encrypted, for exports) or `off`."""
    erased: bool = False
    """True: everything was erased, and nothing is stored until `reinstate_user`."""


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """The signed proof that a user was erased; `hitherto receipt verify` checks it."""

    id: str
    user_hash: str
    """A keyed hash of the user's id."""
    erased_at: datetime | None
    counts: dict[str, int]
    """Removed rows by table."""
    signed_payload: str
    signature: bytes
    key_id: str


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """What an export holds; the client has compared the data with it."""

    user_id: str
    created_at: datetime | None
    counts: dict[str, int]
    """Lines by table."""
    total_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ImportedUser:
    """What an import of an export stored, by table."""

    imported_counts: dict[str, int]
    """Records that were stored."""
    skipped_counts: dict[str, int]
    """Records that the user held already."""
    left_out_counts: dict[str, int]
    """Records that are never imported, such as jobs and audit entries, or were lost."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry of the audit log; it holds ids and hashes and never contents."""

    id: str
    created_at: datetime | None
    actor: str
    """The name of the credential; `extraction` for jobs."""
    method: str
    """The RPC, such as `/hitherto.v1.PrivacyService/EraseUser`, or a maintenance job."""
    user_hash: str
    """A keyed hash of the user's id; empty if it is about none or all of them."""
    resource_ids: tuple[str, ...]
    count: int
    """The number of reads that it stands for."""
