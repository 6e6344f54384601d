"""Lists: an iterator over every item, or one page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from hitherto_client.results.pages import Page

Item = TypeVar("Item")


class AsyncPages(AsyncIterator[Item]):
    """A list that is fetched page by page as you iterate over it.

    Iterate over it for every item, or ask for single pages with `page`.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Page[Item]]]) -> None:
        self._fetch = fetch
        self._page: Page[Item] | None = None
        self._place = 0
        self._total_size: int | None = None

    @property
    def total_size(self) -> int | None:
        """How many items there are on all pages, as the last page said.

        None before the first page is fetched, and for lists that are not counted.
        """
        return self._total_size

    async def page(self, token: str = "") -> Page[Item]:
        """One page; the iteration does not move.

        Args:
            token: `next_page_token` of the page before. Empty: the first page.

        Raises:
            HithertoCallError: The page could not be fetched.
        """
        page = await self._fetch(token)
        self._total_size = page.total_size
        return page

    async def __anext__(self) -> Item:
        while self._page is None or self._place == len(self._page.items):
            if self._page is not None and not self._page.next_page_token:
                raise StopAsyncIteration
            self._page = await self.page(self._page.next_page_token if self._page else "")
            self._place = 0
        self._place += 1
        return self._page.items[self._place - 1]
