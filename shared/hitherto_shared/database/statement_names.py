"""The names of SQL statements, for logs and traces: those of the constants that hold them.

A statement stands whole in a constant of its module, such as `_ENQUEUE` in `queue/enqueueing.py`,
which is named `enqueueing.enqueue`. Names are looked up only when they are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache

_PACKAGES = ("hitherto_shared", "hitherto_retrieval", "hitherto_extraction")
_FRAME = (b"BEGIN", b"COMMIT", b"ROLLBACK")
"""What a transaction adds to a round trip; it has no name of its own beside other statements."""
_MOST_NAMED = 5

_names: dict[bytes, str] = {}
_modules_read: set[str] = set()


def name_of(statement: str | bytes) -> str:
    """The name of a statement; its first word if no constant holds it."""
    text = _bytes(statement)
    if text not in _names:
        _read_modules()
    first = (text.split(maxsplit=1) or [b"nothing"])[0]
    return _names.get(text) or first[:20].decode(errors="replace").upper()


@lru_cache(maxsize=1_000)
def name_of_trip(statements: Sequence[str | bytes]) -> str:
    """The names of the statements of one round trip, joined with ` + `, at most five."""
    texts = list(map(_bytes, statements))
    named = [text for text in texts if text.strip() not in _FRAME] or texts
    names = list(dict.fromkeys(map(name_of, named)))
    more = len(names) - _MOST_NAMED
    return " + ".join(names[:_MOST_NAMED]) + (f" + {more} more" if more > 0 else "")


def _read_modules() -> None:
    for name, module in list(sys.modules.items()):
        if name in _modules_read or not name.startswith(_PACKAGES):
            continue
        _modules_read.add(name)
        for constant, text in _texts(vars(module)):
            # A module that imports a statement comes after the one that defines it.
            _names.setdefault(text, f"{name.rpartition('.')[2]}.{constant}")


def _texts(found: dict[str, object]) -> Iterator[tuple[str, bytes]]:
    for constant, value in list(found.items()):
        name = constant.strip("_").lower()
        if not constant.isupper():
            continue
        held = getattr(value, "sql", value)
        if isinstance(held, str | bytes) and held:
            yield name, _bytes(held)


def _bytes(text: str | bytes) -> bytes:
    return text.encode(errors="replace") if isinstance(text, str) else text
