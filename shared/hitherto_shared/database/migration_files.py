"""The migrations that this program ships: the schema of a new database, and what came after it.

`schema/NN_noun.sql` is the baseline: migration 0000, all files in one transaction. Those after it
are `migrations/NNNN_name.sql`, numbered from 0001. One that takes away what older programs use says
so: `-- oldest-program: NNNN` names the newest migration that a program must know to go on.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

BASELINE = "0000_baseline"
_NO_TRANSACTION = "-- no-transaction"
_OLDEST_PROGRAM = re.compile(r"^-- oldest-program: (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number and name (`0001_folders`), its text and the text's checksum."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text; an applied file must never change."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def transactional(self) -> bool:
        """False for files that hold statements Postgres refuses inside a transaction."""
        return not self.text.startswith(_NO_TRANSACTION)

    @property
    def oldest_program(self) -> str | None:
        """The number a program must know to run on the schema after this; None if any may."""
        found = _OLDEST_PROGRAM.search(self.text)
        return found[1] if found else None


def all_migrations() -> list[Migration]:
    """The baseline and every migration this program ships, in order."""
    baseline = "\n".join(text for _, text in _sql_files("schema"))
    later = [Migration(name, text) for name, text in _sql_files("migrations")]
    return [Migration(BASELINE, baseline), *later]


def _sql_files(folder: str) -> list[tuple[str, str]]:
    """Name and text of the SQL files of a folder beside this module, by name."""
    within = resources.files("hitherto_shared.database") / folder
    files = sorted((f for f in within.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [(f.name.removesuffix(".sql"), f.read_text("utf-8")) for f in files]
