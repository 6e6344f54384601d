"""Decodes large untrusted JSON in a thread, without blocking the interpreter.

The C decoder reads a text in one piece, during which no other thread runs: eight megabytes of small
values take up to a second. The Python decoder is much slower but lets other threads run. A text
with more values than any prompt requests is not read at all.
"""

from __future__ import annotations

import json
import json.scanner
import re
from collections.abc import Callable
from typing import Any

_scanner: Any = json.scanner

LONG = 128 * 1024
"""Characters, or bytes, from which other threads must be able to run."""
MAX_VALUES = 250_000
# A string, also one that has no end; or a comma outside of all.
_STRING_OR_COMMA = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|,', re.DOTALL)


class TooManyValues(ValueError):
    """A text contains more values than are read."""


def loads(
    text: str | bytes,
    *,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
    strict: bool = True,
) -> Any:
    """See `json.loads`; call it in a thread if the text may be long.

    Without `strict`, texts may hold control characters, such as line breaks.

    Raises:
        TooManyValues: It contains too many.
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    if len(text) <= LONG:
        return json.loads(
            text,
            object_pairs_hook=object_pairs_hook,
            parse_constant=parse_constant,
            strict=strict,
        )
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if text.count(",") > MAX_VALUES and _commas(text) > MAX_VALUES:
        raise TooManyValues(f"more than {MAX_VALUES:,} values")
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=object_pairs_hook, parse_constant=parse_constant, strict=strict
    )
    decoder.scan_once = _scanner.py_make_scanner(decoder)
    return decoder.decode(text)


def _commas(text: str) -> int:
    """The commas outside of strings, counted up to one too many."""
    found = 0
    for match in _STRING_OR_COMMA.finditer(text):
        found += match[0] == ","
        if found > MAX_VALUES:
            break
    return found
