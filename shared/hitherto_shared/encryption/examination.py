"""Whether the key-encryption key of the settings opens what is stored: a few user keys are tried.

With a wrong one nothing is lost and nothing fails at once: reads leave out what is sealed, and jobs
wait. So it is told, at every start and by `hitherto doctor`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rewrapping import DAMAGED, OPENS, OTHER_KEY, Outcome, rewrap
from hitherto_shared.encryption.wrapping import KeyWrapper

_EFFECT = "reads leave out what these users encrypted, and their jobs wait"
_COUNTED = "`hitherto-keys check` counts them"


@dataclass(frozen=True, slots=True)
class KeysTried:
    """How many keys open of a few that were tried; what is wrong, if anything, and what to do."""

    opened: int
    fault: str = ""
    remedy: str = ""


async def try_keys(store: KeyStore, wrapper: KeyWrapper | None, *, most: int) -> KeysTried:
    """Try at most so many keys of users, from all over the folder.

    Raises:
        KeyServiceUnavailable: The key-encryption key cannot be used at the moment.
        OSError: The folder cannot be read.
    """
    hashes = await asyncio.to_thread(store.some_hashes, most)
    if wrapper is None:
        if not hashes:
            return KeysTried(0)
        return KeysTried(
            0,
            f"{store.root} holds keys of users, and no key-encryption key is set: {_EFFECT}",
            "set HITHERTO_ENCRYPTION_KEY_FILE, HITHERTO_ENCRYPTION_KEY or HITHERTO_KEY_WRAPPER to "
            "what wrapped them",
        )
    counts = Counter[Outcome]()
    for hashed in hashes:
        counts[await rewrap(store, hashed, None, wrapper)] += 1
    tried = f"of {counts.total()} keys of users tried in {store.root}"
    if counts[OTHER_KEY]:
        return KeysTried(
            counts[OPENS],
            f"{tried}, {counts[OTHER_KEY]} were wrapped with another key-encryption key: {_EFFECT}",
            f"set that one again, or wrap them anew with `hitherto-keys rewrap`; {_COUNTED}",
        )
    if counts[DAMAGED]:
        return KeysTried(
            counts[OPENS],
            f"{tried}, {counts[DAMAGED]} do not open: their files were changed, or another "
            f"key-encryption key has the same id: {_EFFECT}",
            "set the key-encryption key that wrapped them, or restore the folder from a backup; "
            f"{_COUNTED}",
        )
    return KeysTried(counts[OPENS])
