"""Files of figures that a benchmark wrote with `--json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> Any:
    """What stands in a file.

    Raises:
        ValueError: It cannot be read or is no JSON; the text says what to do.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path.name} is not JSON: write it anew with --json") from None


def not_ours(name: str) -> ValueError:
    """The complaint about a file that no run of this version wrote."""
    return ValueError(f"{name} is no result of this version: write it anew with --json")
