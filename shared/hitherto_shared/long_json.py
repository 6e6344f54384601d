"""Decodes large untrusted JSON in a thread, without holding the interpreter.

The decoder in C reads a text in one piece, in which no other thread has a turn: eight megabytes of
small values take it up to a second. The one in Python is slower by far and lets others run. A text
of more values than anybody was asked for is not read at all.
"""

from __future__ import annotations

import json
import json.scanner
from typing import Any

_scanner: Any = json.scanner

LONG = 128 * 1024
"""Characters, or bytes, from which others have to have their turn."""
MAX_VALUES = 250_000


class TooManyValues(ValueError):
    """A text holds more values than are read."""


def loads(text: str | bytes) -> Any:
    """As `json.loads`; to be called in a thread where the text may be long.

    Raises:
        TooManyValues: It holds too many, or a text with as many commas.
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    if len(text) <= LONG:
        return json.loads(text)
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if text.count(",") > MAX_VALUES:
        raise TooManyValues(f"more than {MAX_VALUES:,} values")
    decoder: Any = json.JSONDecoder()
    decoder.scan_once = _scanner.py_make_scanner(decoder)
    return decoder.decode(text)
