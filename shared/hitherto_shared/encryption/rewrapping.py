"""Changes the key-encryption key: each user's data key is wrapped again, and stays the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hitherto_shared.encryption.guarded_wrapper import GuardedWrapper
from hitherto_shared.encryption.key_store import BrokenRecord, KeyStore, WrappedKey
from hitherto_shared.encryption.user_key import KEY_BYTES
from hitherto_shared.encryption.wrapping import KeyWrapper, NotUnwrapped

Outcome = str
OPENS: Outcome = "open with the key of the settings"
REWRAPPED: Outcome = "wrapped anew"
OTHER_KEY: Outcome = "wrapped with another key, unchanged"
DAMAGED: Outcome = "damaged, unchanged"
GONE: Outcome = "erased or changed meanwhile"


async def rewrap(store: KeyStore, hashed: str, old: KeyWrapper | None, new: KeyWrapper) -> Outcome:
    """Wrap the key of a user with `new` if `old` wrapped it; repeated, it changes nothing.

    Without `old`, it only checks that the key opens with `new`.

    Raises:
        KeyServiceUnavailable: One of the key-encryption keys cannot be used at the moment.
        OSError: The folder cannot be read or written.
    """
    try:
        found = await asyncio.to_thread(store.read, hashed)
        if found is None:
            return GONE
        record = found[1]
        if record.wrapper_id == new.id:
            await _unwrapped(record, hashed, new)
            return OPENS
        if old is None or record.wrapper_id != old.id:
            return OTHER_KEY
        key = await _unwrapped(record, hashed, old)
        bound_to = (record.tenant_id, hashed, record.key_id)
        wrapped = await GuardedWrapper(new).wrap(key, bound_to)
        anew = replace(record, wrapper_id=new.id, wrapped=wrapped)
    except (BrokenRecord, NotUnwrapped):
        return DAMAGED
    return REWRAPPED if await asyncio.to_thread(store.replace, hashed, record, anew) else GONE


async def _unwrapped(record: WrappedKey, hashed: str, wrapper: KeyWrapper) -> bytes:
    bound_to = (record.tenant_id, hashed, record.key_id)
    key = await GuardedWrapper(wrapper).unwrap(record.wrapped, bound_to)
    if len(key) != KEY_BYTES:
        raise NotUnwrapped
    return key
