"""Break a copy of the tree in one way after another, and see that the named tests fail.

    python -m tests.mutants                 # all of them, and whether each still applies
    python -m tests.mutants NAME NAME…      # these
    python -m tests.mutants --list          # what there is
    python -m tests.mutants --apply-only    # only whether each still applies

The list is `mutants.toml`. Ends with 1 if a mutant lives, no longer applies, or cannot be judged
because its tests fail in the tree as it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SOURCES = ("shared", "services/retrieval", "services/extraction", ".")
_SECONDS = 900
_TESTS_FAILED = 1
"""What pytest ends with when it ran tests and some failed; other codes say that it ran none."""


@dataclass(frozen=True)
class Mutant:
    """One way to break the product.

    Attributes:
        name: Short and unique.
        promise: What the product no longer holds to: a row of tests/README.md, or a requirement.
        file: What is changed, from the root of the tree.
        before: Text that stands there exactly once.
        after: What stands there instead.
        tests: What must fail, as pytest names it.
    """

    name: str
    promise: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def fault(self, tree: Path) -> str:
        """Why this mutant does not apply to a tree any more; empty if it does."""
        file = tree / self.file
        if not file.is_file():
            return f"{self.file} is not there"
        found = file.read_text("utf-8").count(self.before)
        if found != 1:
            return f"its text stands {found} times in {self.file}"
        if missing := [
            test for test in self.tests if not (tree / test.partition("::")[0]).exists()
        ]:
            return f"{', '.join(missing)} is not there"
        return ""


def mutants() -> list[Mutant]:
    given = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text("utf-8"))
    found = [Mutant(**{**each, "tests": tuple(each["tests"])}) for each in given["mutant"]]
    names = [mutant.name for mutant in found]
    assert len(set(names)) == len(names), "two mutants have one name"
    return found


def run(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on a tree; the exit code of pytest and the end of what it wrote."""
    environment = {
        **os.environ,
        # Before the installed package, whose files are those of this tree and not of the copy.
        "PYTHONPATH": os.pathsep.join(str(tree / source) for source in _SOURCES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *tests],
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            written, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            # Interrupted, not killed: the tests stop what they started.
            process.terminate()
            written, _ = process.communicate()
            return _TESTS_FAILED, f"{written[-2000:]}\nended after {_SECONDS} s"
    return process.returncode, written[-2000:]


def judge(mutant: Mutant, tree: Path) -> str:
    """What became of a mutant: `killed`, or why that cannot be said."""
    file = tree / mutant.file
    right = file.read_text("utf-8")
    file.write_text(right.replace(mutant.before, mutant.after), "utf-8")
    try:
        code, written = run(tree, mutant.tests)
    finally:
        file.write_text(right, "utf-8")
    if code == 0:
        return "LIVES: none of its tests failed"
    if code != _TESTS_FAILED:
        return f"NOT JUDGED: pytest ended with {code}\n{written}"
    code, written = run(tree, mutant.tests)
    return "killed" if code == 0 else f"NOT JUDGED: its tests fail without it too\n{written}"


def copied(folder: Path) -> Path:
    """A copy of what git holds of the tree, changes included."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; how many did not end as they should, 1 at most."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", help="mutants to try; without any, all")
    parser.add_argument("--list", action="store_true", help="name them and what they break")
    parser.add_argument("--apply-only", action="store_true", help="run no tests")
    given = parser.parse_args(arguments)
    known = mutants()
    if unknown := set(given.names) - {mutant.name for mutant in known}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in known if not given.names or mutant.name in given.names]
    if given.list:
        for mutant in chosen:
            print(f"{mutant.name:40} {mutant.promise}")
        return 0
    faults = [f"{mutant.name}: {why}" for mutant in chosen if (why := mutant.fault(ROOT))]
    for fault in faults:
        print(f"DOES NOT APPLY  {fault}")
    bad = len(faults)
    if not given.apply_only:
        with tempfile.TemporaryDirectory(prefix="hm-") as folder:
            # The account that Postgres runs as must be able to enter.
            Path(folder).chmod(0o711)
            tree = copied(Path(folder))
            for mutant in chosen:
                if mutant.fault(ROOT):
                    continue
                begun = time.monotonic()
                ended = judge(mutant, tree)
                bad += ended != "killed"
                print(f"{time.monotonic() - begun:5.0f} s  {mutant.name}: {ended}", flush=True)
    print(f"{len(chosen)} mutants, {bad} not as they should be")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
