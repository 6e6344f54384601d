"""What is signed of a day of the audit log: requirement H6."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hitherto_shared.audit.digest import MerkleTree, bounds, leaf_of, read_digest, sign_day
from hitherto_shared.audit.trail import MAX_RESOURCES, Trail, resources
from hitherto_shared.audit.verify import read_digests
from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.audit_log import AuditEvent
from hitherto_shared.signing import BrokenSignature, Signer

EVENT = AuditEvent(
    UUID("01890000-0000-7000-8000-000000000001"),
    datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
    "key:1:backend",
    "/hitherto.v1.MemoryService/SaveMemory",
    "ab" * 32,
    [UUID("01890000-0000-7000-8000-000000000002")],
    1,
)
DAY = date(2026, 3, 4)


def rfc_6962(leaves: Sequence[bytes]) -> bytes:
    """The definition in section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, right = rfc_6962(leaves[:split]), rfc_6962(leaves[split:])
    return hashlib.sha256(b"\1" + left + right).digest()


def tree(*leaves: bytes) -> MerkleTree:
    grown = MerkleTree()
    for leaf in leaves:
        grown.add(leaf)
    return grown


def test_the_tree_is_that_of_rfc_6962() -> None:
    for size in [*range(18), 31, 32, 33, 100, 257]:
        leaves = [f"leaf {i}".encode() for i in range(size)]
        grown = tree(*leaves)
        assert (grown.count, grown.root()) == (size, rfc_6962(leaves))


def test_the_root_tells_order_number_and_every_field() -> None:
    a, b = leaf_of(EVENT), leaf_of(replace(EVENT, count=2))
    assert len({tree(a, b).root(), tree(b, a).root(), tree(a).root(), tree(a, b, b).root()}) == 4
    changed = [
        replace(EVENT, event_id=UUID(int=1)),
        replace(EVENT, created_at=EVENT.created_at + timedelta(microseconds=1)),
        replace(EVENT, actor="key:1:backenD"), replace(EVENT, method="decay"),
        replace(EVENT, user_hash=""), replace(EVENT, resource_ids=[]), replace(EVENT, count=2),
    ]  # fmt: skip
    assert len({leaf_of(each) for each in [EVENT, *changed]}) == 1 + len(changed)


def test_a_leaf_and_a_day_are_of_utc() -> None:
    elsewhere = EVENT.created_at.astimezone(timezone(timedelta(hours=7)))
    assert leaf_of(replace(EVENT, created_at=elsewhere)) == leaf_of(EVENT)
    whole = replace(EVENT, created_at=EVENT.created_at.replace(microsecond=0))
    assert b".000000+00:00" in leaf_of(whole)
    days = (datetime(2024, 2, 29, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert bounds(date(2024, 2, 29)) == days


def test_a_digest_survives_the_log_and_holds_its_signature() -> None:
    signer = Signer(Ed25519PrivateKey.generate())
    digest = sign_day(signer, "acme", DAY, tree(leaf_of(EVENT)))
    line = json.dumps({"message": "a day of the audit log was signed", "digest": digest.as_json()})
    assert list(read_digests(["not json", "[]", "{}", '"x"', line])) == [digest]
    assert read_digest(digest.as_json()) == digest
    digest.check_signature(signer.public_key)
    for forged in (
        replace(digest, tenant_id="other"),
        replace(digest, day=DAY + timedelta(days=1)),
        replace(digest, count=2),
        replace(digest, root=bytes(32)),
    ):
        with pytest.raises(BrokenSignature):
            forged.check_signature(signer.public_key)
    with pytest.raises(BrokenSignature):
        digest.check_signature(Signer(Ed25519PrivateKey.generate()).public_key)
    with pytest.raises(ValueError, match="no digest"):
        read_digest({"tenant_id": "acme"})


def test_resources_are_uuids_and_never_the_user() -> None:
    first, second = (f"01890000-0000-7000-8000-00000000000{i}" for i in (1, 2))
    given = [first, "meeting with Ana", "", '{"memories": 3}', second.upper(), first, "42"]
    assert [str(each) for each in resources(given)] == [first, second]
    assert [str(each) for each in resources(given, besides=first.upper())] == [second]
    many = [str(UUID(int=i)) for i in range(MAX_RESOURCES + 5)]
    assert len(resources(many)) == MAX_RESOURCES


def test_the_name_of_a_credential_does_not_name_a_person() -> None:
    trail = Trail(b"k" * 32)
    scopes = frozenset({"read"})
    person = Principal("acme", "jwt:ana@example.com", scopes, "ana@example.com")
    hashed = trail.actor(person)
    assert hashed == f"jwt:{trail.hash('acme', 'ana@example.com')}"
    # Also while she acts for somebody of her departments.
    assert trail.actor(person.for_members()) == hashed
    assert hashed in trail.actors("acme", "jwt:ana@example.com")
    # A credential for a list is bound: the name may be one of its people's.
    listed = Principal("acme", "key:2:Ana and Bo", scopes, users=frozenset({"ana", "bo"}))
    assert trail.actor(listed) == "key:2"
    service = Principal("acme", "jwt:backend", scopes)
    assert trail.actor(service) == "jwt:backend"
    backend = Principal("acme", "key:1:backend", scopes)
    assert trail.actor(backend) == "key:1:backend"
    phone = Principal("acme", "key:1:Ana's phone", scopes, "ana@example.com")
    assert trail.actor(phone) == "key:1"
    assert trail.actors("acme", "key:1:Ana's phone") == ["key:1:Ana's phone", "key:1"]
    assert Trail(b"x" * 32).actor(person) != hashed
