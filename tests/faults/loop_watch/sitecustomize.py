"""Watches the event loop of a service process: how long it is held, and by what.

A process that finds this folder on PYTHONPATH writes a line of JSON to LOOP_WATCH_FILE whenever its
loop did nothing else for a while: the seconds it was held, the processor time that the process used
meanwhile, and where the thread of the loop was. Nothing of the product is replaced.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

_BEAT_SECONDS = 0.005
_LOOK_SECONDS = 0.005
_HELD_SECONDS = float(os.environ.get("LOOP_WATCH_SECONDS", "0.02"))
_FRAMES = 12


class _Watch:
    """A beat of the loop, and a thread that looks where the loop is when the beat is late."""

    def __init__(self, file: str, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop
        self._thread = threading.get_ident()
        self._beat_at, self._used = time.monotonic(), _used()
        self._seen: Counter[str] = Counter()
        self._collecting = 0.0
        self._beat()
        gc.callbacks.append(self._collected)
        threading.Thread(target=self._look, daemon=True).start()

    def _beat(self) -> None:
        now, used = time.monotonic(), _used()
        held = now - self._beat_at - _BEAT_SECONDS
        if held > _HELD_SECONDS:
            line: dict[str, Any] = {"held": round(held, 4)}
            line["used"], line["loop"] = (
                round(a - b, 4) for a, b in zip(used, self._used, strict=True)
            )
            line["where"] = self._seen.most_common(3)
            self._write(line)
        self._seen = Counter()
        self._beat_at, self._used = time.monotonic(), _used()
        self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _collected(self, phase: str, facts: dict[str, int]) -> None:
        """Full garbage collections are told apart: they may come at any place."""
        if facts["generation"] < 2:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            seconds = round(time.thread_time() - self._collecting, 4)
            self._write({"collected": seconds, "left_out": gc.get_freeze_count()})

    def _write(self, line: dict[str, Any]) -> None:
        with open(self._file, "a", encoding="utf-8") as told:
            told.write(json.dumps(line) + "\n")

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - self._beat_at > _HELD_SECONDS / 2:
                frames = sys._current_frames()
                where = _told(frames.pop(self._thread, None))
                # Without the loop's own words a thread holds the interpreter, or the library does.
                beside = [told for frame in frames.values() if "hitherto" in (told := _told(frame))]
                self._seen[" | ".join([where, *beside])] += 1


def _used() -> tuple[float, float]:
    """Processor time of the process and of this thread, in seconds."""
    return time.process_time(), time.thread_time()


def _told(frame: FrameType | None) -> str:
    """Where a thread is, its innermost frame first."""
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        code = frame.f_code
        place = "/".join(code.co_filename.split(os.sep)[-3:])
        found.append(f"{place}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(found)


def _watched(run: Callable[..., Any], file: str) -> Callable[..., Any]:
    def start(main: Coroutine[Any, Any, Any], **given: Any) -> Any:
        async def watching() -> Any:
            _Watch(file, asyncio.get_running_loop())
            return await main

        return run(watching(), **given)

    return start


if file := os.environ.get("LOOP_WATCH_FILE"):
    import uvloop

    uvloop.run = _watched(uvloop.run, file)
