"""What several tests of the command hand over, hold in memory and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ID = "0198c0de-7a11-7000-8000-000000000001"
MEMORY = {
    "id": ID,
    "type": "MEMORY_TYPE_FACT",
    "status": "MEMORY_STATUS_ACTIVE",
    "validFrom": "2026-08-17T00:00:00Z",
}

NOWHERE = "127.0.0.1:1"


def lines_file(folder: Path, *conversations: str, user: str = "sarah", messages: int = 4) -> str:
    path = folder / "conversations.jsonl"
    said = [{"role": "user", "content": f"message {n}"} for n in range(messages)]
    talks = [{"user_id": user, "conversation_id": n, "messages": said} for n in conversations]
    path.write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    return str(path)


def hitherto(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """The command as a process of its own, which finds the fakes through the environment."""
    program = "import sys; from hitherto_client.command import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # Of a command that does not end, the stacks tell why.
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})},
    )
