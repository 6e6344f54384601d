"""Ana's sealed memories as only the holder of her key sees them, for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_shared.encryption.rows import MEMORY
from tests.e2e.conftest import Services
from tests.e2e.learning import rows
from tests.e2e.sealing import dump, holding, key_of

_SEALED = """
SELECT memory_id, status, version, sensitive, embedding_state, lexical_length, sealed
FROM hitherto.memories WHERE user_id = 'ana' AND sealed IS NOT NULL ORDER BY created_at, memory_id
"""


@dataclass(frozen=True, slots=True)
class Held:
    """One of them, opened."""

    memory_id: str
    status: str
    version: int
    words: Mapping[str, Any]


async def held(services: Services) -> list[Held]:
    """All of them, the oldest first."""
    key = await key_of(services)
    sealed = []
    found = rows(services.conninfo, _SEALED)
    for memory_id, status, version, sensitive, state, length, value in found:
        assert (sensitive, state, length) == (True, "sealed", 0)
        words = key.open(value, MEMORY.place(memory_id))
        sealed.append(Held(str(memory_id), status, version, words))
    return sealed


def in_clear(conninfo: str, *words: str) -> dict[str, set[tuple[str, str]]]:
    """Where any of the words stands in the database, in the columns of whichever table."""
    return holding(dump(conninfo), words)


def contents(some: Sequence[Held]) -> list[str]:
    return [each.words["content"] for each in some]
