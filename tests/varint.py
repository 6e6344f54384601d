"""Numbers of any length, as a test writes them into messages and frames by hand."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Seven bits of the number in each byte, the lowest first."""
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)
