"""Verifies the audit log against its signed digests, and these against copies kept elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from hitherto_shared.audit.digest import Digest, read_digest, tree_of_day
from hitherto_shared.database.pool import Connection
from hitherto_shared.signing import BrokenSignature, key_id_of

_DIGESTS = """
SELECT tenant_id, day, count, root, signature, key_id
FROM audit_digests WHERE tenant_id = %(tenant_id)s ORDER BY day
"""

_MEANINGS = {
    "unchanged": "unchanged",
    "changed": "entries were changed, added or removed since",
    "forged": "the signature is not over this digest",
    "unknown_key": "signed by a key that was not given; name it with --public-key",
    "replaced": "the digest in the database is not the one kept elsewhere",
    "missing": "the digest kept elsewhere is not in the database",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one day: a state (see `_MEANINGS`), and the number of signed entries."""

    day: date
    state: str
    count: int

    @property
    def good(self) -> bool:
        """Whether the day is verified."""
        return self.state == "unchanged"

    @property
    def description(self) -> str:
        """The state in words."""
        return _MEANINGS[self.state]


async def verify_log(
    connection: Connection,
    tenant_id: str,
    public_keys: Sequence[bytes],
    kept: Sequence[Digest] = (),
) -> list[Finding]:
    """Check every signed day of a tenant, the earliest first.

    Digests in the database must equal those in `kept`, which come from outside it.
    """
    signed = await connection.fetch(Digest, _DIGESTS, {"tenant_id": tenant_id})
    held = {digest.day: digest for digest in signed}
    keys = {key_id_of(key): key for key in public_keys}
    elsewhere = {digest.day: digest for digest in kept}
    found = []
    for day in sorted({*held, *elsewhere}):
        digest, copy = held.get(day), elsewhere.get(day)
        # The copy counts: an attacker who changed the database could have changed the digest as
        # well.
        trusted = copy or digest
        assert trusted is not None
        state = await _state(connection, trusted, keys)
        if state == "unchanged" and digest != trusted:
            state = "missing" if digest is None else "replaced"
        found.append(Finding(day, state, trusted.count))
    return found


async def _state(connection: Connection, digest: Digest, keys: dict[str, bytes]) -> str:
    if digest.key_id not in keys:
        return "unknown_key"
    try:
        digest.check_signature(keys[digest.key_id])
    except BrokenSignature:
        return "forged"
    tree = await tree_of_day(connection, digest.tenant_id, digest.day)
    same = (tree.count, tree.root()) == (digest.count, digest.root)
    return "unchanged" if same else "changed"


def read_digests(lines: Iterable[str]) -> Iterator[Digest]:
    """The digests in a log of the service, or in a file with one digest as JSON per line."""
    for line in lines:
        try:
            value = json.loads(line)
            yield read_digest(value.get("digest", value))
        except (ValueError, AttributeError):
            continue  # most lines of a log are about something else
