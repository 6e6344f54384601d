"""The code blocks of README.md and docs/: what runs them, and why no test runs some.

A block without a language holds the commands of a shell, `text` what something prints or a drawing.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]

MEMORY, JOB, DOCUMENT, DELIVERY, WEBHOOK = (
    f"0198c0de-7a11-7000-8000-0000000000{number}" for number in ("01", "03", "09", "11", "12")
)
"""The ids that stand for some memory, job, document, delivery and webhook."""

PYTHON_RUN_BY = {
    "README.md": "tests/e2e/test_readme.py",
    "docs/changes.md": "tests/e2e/test_page_snippets.py",
    "docs/how-to.md": "tests/e2e/test_how_to_docs.py",
    "docs/integrations.md": "tests/e2e/test_integrations_docs.py",
    "docs/langgraph-agent.md": "tests/e2e/test_integrations_docs.py",
    "docs/python-client.md": "tests/e2e/test_how_to_docs.py",
    "docs/quick-start.md": "tests/e2e/test_page_snippets.py",
    "docs/security.md": "tests/e2e/test_page_snippets.py",
    "docs/sessions.md": "tests/e2e/test_page_snippets.py",
    "docs/tools.md": "tests/e2e/test_tools.py",
}
"""The test that executes the Python of a page."""

WALKED_BY = {
    ("docs/demo.md", "A tour"): "tests/e2e/test_readme.py",
    ("docs/privacy.md", "Encryption"): "tests/e2e/test_privacy_docs.py",
    ("docs/security.md", "A walk through"): "tests/e2e/test_security_docs.py",
}
"""The test that runs all commands of a section as one story, by page and heading.

tests/e2e/test_typed_commands.py runs every other `hitherto` command.
"""

NOT_RUN = {
    ". .venv/bin/activate": "changes the shell that it is typed into",
    "cd": "changes the shell that it is typed into",
    "cp -a": "tests/faults/test_backup.py copies these files by itself",
    "curl": "tests/e2e/test_first_steps.py makes such calls",
    "docker": "needs Docker and the network; the names in it are checked",
    "export": "changes the shell that it is typed into; the names in it are checked",
    "git": "marks and publishes the commit of a release",
    "go": "tests/e2e/test_client_packages.py takes the same steps",
    "hitherto audit verify": "needs the logs of other days; tests/e2e/test_audit.py",
    "hitherto console": "serves until it is stopped; tests/e2e/test_console.py",
    "hitherto demo": "takes a minute; tests/e2e/test_demo.py",
    "hitherto down": "ends what tests/faults/test_up.py starts",
    "hitherto jobs --cancel": "needs a job that waits; tests/e2e/test_command.py",
    f"hitherto jobs --retry {JOB}": "needs a job that failed; tests/e2e/test_command.py",
    "hitherto http": "serves until it is stopped; tests/e2e/test_http_browser.py",
    "hitherto mcp": "serves until it is stopped; tests/e2e/test_mcp.py",
    "hitherto receipt verify receipts/maren.json": "tests/e2e/test_leaving_command.py runs it",
    "hitherto reembed": "needs a second embedding model; tests/e2e/test_reembedding.py",
    "hitherto up": "serves until it is stopped; tests/faults/test_up.py",
    "hitherto undo": "needs memories that were merged; tests/e2e/test_command.py",
    "hitherto-extraction": "serves until it is stopped; every end-to-end test starts it",
    "hitherto-keys": "needs the folder with people's keys; tests/integration/encryption",
    "hitherto-migrate": "tests/faults/test_backup.py runs it",
    "hitherto-retrieval": "serves until it is stopped; every end-to-end test starts it",
    "java": "tests/e2e/test_client_packages.py runs the same program",
    "make": "is this project's own; the target is checked",
    "mkdir": "begins a folder for the commands after it",
    "mvn": "tests/e2e/test_client_packages.py runs the same",
    "(cd clients/typescript": "tests/e2e/test_client_packages.py runs the same",
    "node": "tests/e2e/test_local_model.py starts it where it is installed",
    "npm": "needs the network; tests/e2e/test_client_packages.py builds its package with it",
    "openssl": "is not this project's",
    "pg_dump": "tests/faults/test_backup.py runs it",
    "pg_restore": "tests/faults/test_backup.py runs it",
    "pip": "needs the network; the extras in it are checked",
    "psql": "is not this project's; tests/pgbouncer.py writes the same file",
    "python -m": "takes minutes; the module is checked",
}
"""Why no test runs the commands that begin so."""


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: Its page, by the path from the top of the repository.
        line: The number of the line with its first fence.
        heading: The last heading above it, without its marks.
        language: What its fence says; empty for commands of a shell.
        text: What is between its fences, without the indent of a list around it.
    """

    page: str
    line: int
    heading: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def walked(self) -> bool:
        """Whether a test of its section runs its commands."""
        return (self.page, self.heading) in WALKED_BY

    def commands(self) -> list[str]:
        """What is typed, line by line, with comments; a backslash continues a line."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip()]


def blocks(*languages: str) -> list[Block]:
    """Every block of every page in one of the languages; without any, all blocks."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text("utf-8")
        for match in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
            if languages and match[2] not in languages:
                continue
            above = text[: match.start()]
            headings = re.findall(r"^#+ (.+)$", above, re.MULTILINE)
            block = Block(
                page, above.count("\n") + 1, headings[-1], match[2], textwrap.dedent(match[3])
            )
            found.append(block)
    return found


def typed(command: str) -> str:
    """A command without the variables that are set for it."""
    return re.sub(r"^(?:[A-Z][A-Z_]*=\S+ +)+", "", command)


def start_not_run(command: str) -> str | None:
    """The key of `NOT_RUN` with which a command begins."""
    words = typed(command)
    return next((start for start in NOT_RUN if f"{words} ".startswith(f"{start} ")), None)
