"""A corpus: the statements that differ by kind of text, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hitherto_shared.models import Scope
from hitherto_shared.text.passages import MAX_EMBEDDED

ItemKey = tuple[str, int]
"""A text of one user: an id, and a number under it.

A message is known by its conversation and its number there, a summary by its conversation and the
version of its words, a memory by its id and the version of its words, a chunk by its id and 0.
"""
TextKey = tuple[str, str, str, int]
"""A text of any user: tenant, user, and its `ItemKey`."""


@dataclass(frozen=True, slots=True)
class EmbeddableText:
    """A text of any user with its present words, and of a memory the words that it came from."""

    key: TextKey
    contents: Sequence[str] = field(hash=False)

    @property
    def scope(self) -> Scope:
        """Its user."""
        return Scope(*self.key[:2])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddedCorpus:
    """A kind of text that has vectors.

    Statements that find texts, of any user, return the four parts of the key, then the words that
    `contents` takes. Those about texts of one user take the parallel arrays `ids` and `numbers`
    (see `ItemKey`).

    Attributes:
        contents: The texts to embed, from the words of a row.
        pending: Finds texts that wait for a vector of the active model, oldest first.
        without: Finds texts without a vector of `model`, in the order of their keys, after one.
        write: Stores `vectors`, but for texts that are gone, sealed or reworded.
        settle: Sets the state of waiting texts, if `model` is active. It runs after `write`: the
            foreign key of a vector locks the model's row, so that no change of the active model
            comes in between, and an earlier one is seen.
        expect: After a change of the active model: gives texts whose state is wrong the right one.
        write_sources: Stores `vectors` of the words that memories came from.
        first_id: An id before all others.
    """

    name: str
    contents: Callable[..., Sequence[str]]
    pending: str
    without: str
    write: str
    settle: str
    expect: str
    write_sources: str = ""
    first_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassageCorpus(EmbeddedCorpus):
    """A kind of text that is in the keyword index of passages.

    Attributes:
        text: The indexed text, from the words of a row.
        indexed: The number in the index, the number of terms, and the words; locks the rows, so
            that no vector is stored for a text that is about to leave the index. Summaries are
            found whatever the version of their words.
    """

    text: Callable[..., str]
    indexed: str
    delete_vectors: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpokenCorpus(PassageCorpus):
    """A kind of passage that is stored before it is indexed, and may be sealed.

    Attributes:
        left: Finds texts of any user that no job has indexed in time.
        unindexed: Those of the given texts that are to be indexed and are not yet: their keys,
            whether they are long enough for a vector, and their words.
        number: Stores numbers, lengths and states of texts without a number; returns their keys.
    """

    left: str
    unindexed: str
    number: str


def beginning(text: Callable[..., str]) -> Callable[..., Sequence[str]]:
    """The `contents` of a corpus whose `text` is embedded as far as it is read."""
    return lambda *words: (text(*words)[:MAX_EMBEDDED],)
