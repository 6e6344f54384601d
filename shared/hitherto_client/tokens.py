"""Consistency tokens: a client's reads of a user include its own earlier writes.

Tokens cannot be compared. Of writes that overlapped, the tokens of all are kept and sent together;
a write that began after another one ended has the token that covers both.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

_MOST_USERS = 10_000
"""By the time that another user takes a place, a replica has long caught up with its token."""
_MOST_TOKENS = 16
"""What a service takes in one request."""

_ANY, _EVERY = object(), object()
"""In the place of a user: writes for any one of them; writes for who knows how many."""


class OwnWrites:
    """The tokens of the users whom this client has written for; safe with threads.

    Each user has tokens of their own, so that a backend that writes for many users loses none. Only
    if more than 16 writes for one user, or for several users at once, overlap are those left out
    that ended first: on a replica, a read right afterwards may miss them.
    """

    def __init__(self) -> None:
        self._tokens: OrderedDict[Hashable, dict[str, int]] = OrderedDict()
        """Each token with the number of its arrival."""
        self._arrivals = 0
        self._lock = threading.Lock()

    def begin(self) -> int:
        """Says that a write begins; `note` takes what this returns."""
        return self._arrivals

    def note(self, user: str, token: str, *, begun: int = 0) -> None:
        """Keep the token of a write; if `begun` is given, it covers what had ended by then.

        `user` is empty if the write was for any number of users, an empty `token` is ignored, and
        `begun` is what `begin` returned.
        """
        if not token:
            return
        with self._lock:
            self._arrivals += 1
            for name in (user or _EVERY, _ANY):
                kept = self._tokens.pop(name, {})
                kept = {old: arrival for old, arrival in kept.items() if arrival > begun}
                kept[token] = self._arrivals
                self._tokens[name] = dict(list(kept.items())[-_MOST_TOKENS:])
            while len(self._tokens) > _MOST_USERS:
                self._tokens.popitem(last=False)

    def of(self, user: str) -> str:
        """What a read of this user sends; for no user, what covers the reads of any."""
        with self._lock:
            names = (_EVERY, user) if user else (_ANY,)
            found = {token: None for name in names for token in self._tokens.get(name, ())}
        return " ".join(list(found)[-_MOST_TOKENS:])

    def drop(self, user: str) -> None:
        """Forget the tokens of a user, which the services no longer accept."""
        with self._lock:
            for name in (user, _EVERY, _ANY):
                self._tokens.pop(name, None)
