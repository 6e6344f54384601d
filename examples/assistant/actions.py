"""What confirmed actions do: nothing but a record, in the place of mail and task systems."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

Params = Mapping[str, Any]


class Executor(Protocol):
    """Carries out actions that a person has confirmed."""

    def execute(self, action_id: str, kind: str, params: Params) -> dict[str, Any]:
        """Carry out one action and return its outcome.

        Raises:
            ActionFailed: It was not done.
        """


class ActionFailed(Exception):
    """An action was not done; the text says why."""


class RecordedExecutor:
    """Writes each action to a file of JSON lines instead of calling a mail or task system.

    Args:
        record: The file; it is created. An action that it holds is not done again, so that a
            repeated confirmation has no second effect.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._kinds: Mapping[str, Callable[[Params, int], dict[str, Any]]] = {
            "create_task": lambda params, number: {
                "result": f"{params.get('project') or 'TASK'}-{number} created"
            },
            "send_email": lambda params, number: {"result": f"sent to {params['to']}"},
        }

    def execute(self, action_id: str, kind: str, params: Params) -> dict[str, Any]:
        """Record the action."""
        make = self._kinds.get(kind)
        if make is None:
            known = ", ".join(self._kinds)
            raise ActionFailed(f"there is no action {kind!r} here; there are: {known}")
        if kind == "send_email" and not params.get("to"):
            raise ActionFailed("the email has no recipient")
        with self._lock:
            done = self._read()
            for entry in done:
                if entry["id"] == action_id:
                    outcome: dict[str, Any] = entry["outcome"]
                    return outcome
            outcome = make(params, 101 + len(done))
            entry = {"id": action_id, "type": kind, "params": dict(params), "outcome": outcome}
            with self._record.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
        return outcome

    def _read(self) -> list[dict[str, Any]]:
        if not self._record.exists():
            return []
        return [json.loads(line) for line in self._record.read_text("utf-8").splitlines()]
