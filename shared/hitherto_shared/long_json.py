"""JSON from outside that may have megabytes, read in a thread without holding the interpreter.

The decoder in C reads a text in one piece, in which no other thread has a turn: eight megabytes of
small values take it up to a second. The one in Python is slower by far and lets others run.
"""

from __future__ import annotations

import json
import json.scanner
from typing import Any

_scanner: Any = json.scanner

LONG = 128 * 1024
"""Characters, or bytes, from which others have to have their turn."""


def loads(text: str | bytes) -> Any:
    """As `json.loads`; to be called in a thread where the text may be long.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    if len(text) <= LONG:
        return json.loads(text)
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    decoder: Any = json.JSONDecoder()
    decoder.scan_once = _scanner.py_make_scanner(decoder)
    return decoder.decode(text)
