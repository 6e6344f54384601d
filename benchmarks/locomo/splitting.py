"""Splits each message into several, as in chats whose users send a thought at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from benchmarks.locomo.data import Data

Gold = Literal["every", "longest"]
"""Which pieces of a gold message are gold: every piece, or only the longest."""
LEAST = 20
"""Characters that a piece has at least: a shorter one occurs in any block by chance."""
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


def split_turns(data: Data, gold: Gold) -> Data:
    """Return the data with each message split at its sentence ends into messages of its speaker.

    The text alone decides where it is split, so two runs split alike. A memory comes from every
    piece of the messages that it came from.

    Args:
        data: Sessions and questions.
        gold: The pieces that hold an answer; the data do not say which sentence does.
    """
    pieces: dict[tuple[str, str], Mapping[str, str]] = {}
    for session in data.sessions:
        for message in session["messages"]:
            pieces[session["user_id"], message["id"]] = {
                f"{message['id']}/{place}": text
                for place, text in enumerate(sentences(message["content"]), start=1)
            }

    def every(user: str, ids: Iterable[str]) -> list[str]:
        return [piece for each in ids for piece in pieces.get((user, each), (each,))]

    def longest(user: str, ids: Iterable[str]) -> list[str]:
        found = []
        for each in ids:
            texts = pieces.get((user, each), {each: ""})
            found.append(max(texts, key=lambda piece: len(texts[piece])))
        return found

    def in_pieces(session: Mapping[str, Any]) -> dict[str, Any]:
        user = session["user_id"]
        return {
            **session,
            "messages": [
                {**message, "id": piece, "content": text}
                for message in session["messages"]
                for piece, text in pieces[user, message["id"]].items()
            ],
            "facts": [
                {**fact, "evidence": every(user, fact["evidence"])} for fact in session["facts"]
            ],
        }

    chosen = every if gold == "every" else longest
    return Data(
        [in_pieces(session) for session in data.sessions],
        [
            replace(question, gold=frozenset(chosen(question.user, question.gold)))
            for question in data.questions
        ],
        f"{data.name}, split ({gold})",
    )


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; one that is too short is joined to the next or the last."""
    found: list[str] = []
    short = ""
    for part in _SENTENCE_END.split(text):
        short = f"{short} {part}".strip()
        if len(short) >= LEAST:
            found.append(short)
            short = ""
    if not found:
        return [short or text]
    if short:
        found[-1] = f"{found[-1]} {short}"
    return found
