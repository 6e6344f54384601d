"""How far long work is: a bar on a terminal, a line now and then elsewhere; what a stop leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError

_NOTE_EVERY = 10_000
"""Without a known end, elsewhere than on a terminal: items between two lines."""


class Bar:
    """Progress on standard error while it is used as a context."""

    def __init__(self, output: Output, *, end_known: bool = True) -> None:
        """Prepare it.

        With `end_known`, progress comes as a share, with `show`; else as a number, with `count`.
        """
        self._output = output
        self._tenth = -1
        self._noted = 0
        self._bar: Progress | None = None
        if output.stderr.is_terminal:
            share = [TextColumn("{task.percentage:>3.0f} %", markup=False)] if end_known else []
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                *share,
                TimeElapsedColumn(),
                console=output.stderr,
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0 if end_known else None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, share: float, text: str) -> None:
        """Bring the display up to date."""
        if self._bar is not None:
            self._bar.update(self._task, completed=share, description=text)
        elif (tenth := int(share * 10 + 1e-9)) > self._tenth:
            self._tenth = tenth
            self._output.note(f"{tenth * 10:3d} %  {text}")

    def count(self, done: int, text: str) -> None:
        """The same for work whose end is not known."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        elif done >= self._noted + _NOTE_EVERY:
            self._noted = done
            self._output.note(text)


@contextmanager
def if_stopped(output: Output, left: Callable[[], str]) -> Iterator[None]:
    """Say what stays if the person or a failed call stops the work."""
    try:
        yield
    except (KeyboardInterrupt, HithertoCallError):
        if text := left():
            output.note(text)
        raise
