"""Signatures of the installation, and the keyed hash that stands for a user."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from hitherto_shared.signing import BrokenSignature, key_id_of, load_signer, read_public_key, verify
from hitherto_shared.user_hash import user_hash

KEY = b"k" * 32


def test_a_signature_is_of_one_key_over_one_payload(tmp_path: Path) -> None:
    signer, other = load_signer(tmp_path / "a.pem"), load_signer(tmp_path / "b.pem")
    signature = signer.sign("Huế 🏯".encode())
    verify(signer.public_key, "Huế 🏯".encode(), signature)
    for key, payload, given in (
        (other.public_key, "Huế 🏯".encode(), signature),
        (signer.public_key, b"Hue", signature),
        (signer.public_key, "Huế 🏯".encode(), signature[:-1]),
        (signer.public_key, "Huế 🏯".encode(), b""),
        (b"short", "Huế 🏯".encode(), signature),
    ):
        with pytest.raises(BrokenSignature):
            verify(key, payload, given)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "signing_key.pem"
    first, again = load_signer(path), load_signer(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (first.key_id, first.sign(b"x")) == (again.key_id, again.sign(b"x"))
    assert first.key_id == key_id_of(first.public_key)
    assert [each.name for each in path.parent.iterdir()] == ["signing_key.pem"]


def test_the_public_half_is_read_from_either_file(tmp_path: Path) -> None:
    path, public = tmp_path / "signing_key.pem", tmp_path / "public.pem"
    signer = load_signer(path)
    key = serialization.load_pem_private_key(path.read_bytes(), None).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_bytes(serialization.Encoding.PEM, form))
    assert read_public_key(path) == read_public_key(public) == signer.public_key


OF_ANOTHER_KIND = generate_private_key(SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@pytest.mark.parametrize(
    "text", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\n", OF_ANOTHER_KIND]
)
def test_other_files_are_refused_and_left_alone(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(text)
    path.chmod(0o600)
    for load in (load_signer, read_public_key):
        with pytest.raises(ValueError, match="openssl"):
            load(path)
    assert path.read_bytes() == text


def test_a_hash_is_of_one_user_of_one_tenant_under_one_key() -> None:
    hashed = user_hash(KEY, "default", "ana")
    assert (len(hashed), hashed) == (64, user_hash(KEY, "default", "ana"))
    others = [
        user_hash(b"l" * 32, "default", "ana"),
        user_hash(KEY, "defaul", "tana"),
        user_hash(KEY, "default\x1fana", ""),
        user_hash(KEY, "default", "Ana"),
        user_hash(KEY, "default", "Thảo 🍵"),
        user_hash(KEY, 'default","ana', ""),
    ]
    assert len({hashed, *others}) == len(others) + 1
