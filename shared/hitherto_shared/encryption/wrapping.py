"""The key-encryption key: wraps the data keys of users, and is itself never stored here.

It comes from the environment or a file, or stays in a key-management service behind a hook.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from hitherto_shared.private_file import open_private
from hitherto_shared.sealing import BrokenToken, Sealer

HOOK = "HITHERTO_KEY_WRAPPER"
KEK_BYTES = 32
MAX_ID = 256


class NotUnwrapped(Exception):
    """The wrapped key was changed, is bound to something else, or another key wrapped it.

    A custom wrapper raises it for keys that will never open. Any other error counts as an outage.
    """


@runtime_checkable
class KeyWrapper(Protocol):
    """Wraps keys and unwraps them.

    Attributes:
        id: Identifies the key-encryption key, and stays the same as long as that key unwraps what
            was wrapped before; up to 256 characters. It is stored beside each wrapped key.
    """

    id: str

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        """The wrapped key, which opens only with the same `bound_to`: tenant, user and key."""
        ...

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        """The key that was wrapped.

        Raises:
            NotUnwrapped: It will never open with this key.
        """
        ...


class LocalWrapper:
    """Wraps with a key of 32 bytes that this process holds: AES-256-GCM."""

    def __init__(self, kek: bytes) -> None:
        self._sealer = Sealer(kek, "key-wrapping")
        named = hmac.new(kek, b"hitherto/key-encryption-key-id\0", hashlib.sha256)
        self.id = f"local:{named.hexdigest()[:16]}"

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        """The key, wrapped here."""
        return self._sealer.seal_bytes(key, bound_to)

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        """The key, unwrapped here; see `KeyWrapper`."""
        try:
            return self._sealer.open_bytes(wrapped, bound_to)
        except BrokenToken:
            raise NotUnwrapped from None


def read_kek(text: str, named: str) -> bytes:
    """The key-encryption key as 64 hexadecimal digits.

    White space around it is ignored. `named` is its origin, for the message.

    Raises:
        ValueError: They have another form. The message does not repeat them.
    """
    try:
        kek = bytes.fromhex(text)
    except ValueError:
        kek = b""
    if len(kek) != KEK_BYTES:
        raise ValueError(
            f"{named} does not hold a key of 64 hexadecimal digits: create one with "
            "`openssl rand -hex 32`, and keep a copy of it separate from the database's backups"
        )
    return kek


def read_kek_file(path: Path) -> bytes:
    """The key-encryption key in a file.

    Raises:
        ValueError: There is no such file, it cannot be read, other users may read it, or it has
            other contents.
    """
    try:
        with open_private(path) as file:
            text = file.read().decode("ascii")
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): create a key there with "
            "`openssl rand -hex 32`, readable by the service alone"
        ) from None
    return read_kek(text, str(path))


def load_wrapper(named: str) -> KeyWrapper:
    """The wrapper of a custom factory without arguments, named as `package.module:factory`.

    Raises:
        ValueError: It cannot be imported or called, or creates something else.
    """
    module_name, _, factory_name = named.strip().partition(":")
    if not (module_name and factory_name):
        raise ValueError(f"{HOOK} must look like `package.module:factory`")
    try:
        factory = getattr(importlib.import_module(module_name), factory_name)
        made = factory()
    except (Exception, SystemExit) as error:
        # The text of the error may quote a credential.
        raise ValueError(
            f"{HOOK}={named} cannot be used ({type(error).__name__}): it must name a function "
            "without arguments in a module that Python can import here"
        ) from error
    if not _is_wrapper(made):
        raise ValueError(
            f"{HOOK}={named} must return an object with `id`, a text of up to {MAX_ID} characters, "
            "and with the asynchronous methods `wrap` and `unwrap`"
        )
    wrapper: KeyWrapper = made
    return wrapper


def _is_wrapper(made: object) -> bool:
    return (
        isinstance(made, KeyWrapper)
        and isinstance(made.id, str)
        and 0 < len(made.id) <= MAX_ID
        and inspect.iscoroutinefunction(made.wrap)
        and inspect.iscoroutinefunction(made.unwrap)
    )
