"""`make docs` builds the documentation as a web site in which every link leads somewhere."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.client_packages import unavailable
from tests.e2e.webdriver import missing_tools, open_browser

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv-docs"
MADE = shutil.ignore_patterns(
    *(".git", ".venv*", ".hitherto", ".*_cache", "__pycache__", "build", "dist"),
    *("node_modules", "target"),
)
INSTALL_SECONDS, BUILD_SECONDS = 540, 240

PARSE = "return mermaid.parse(arguments[0]).then(() => '', error => String(error))"
"""The complaint of the drawing library about a picture, in a page that has loaded it."""

pytestmark = [pytest.mark.faults, pytest.mark.timeout(INSTALL_SECONDS + 2 * BUILD_SECONDS)]


def make(
    folder: Path, target: str, *given: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell: without what an outer make would pass on."""
    passed_on = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}
    return subprocess.run(
        ["make", target, f"PYTHON={sys.executable}", *given],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in passed_on},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def copied(source: str, copy: str) -> None:
    """Copy a file, unless it was another test's and is gone by now."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, copy)


def with_tools() -> None:
    """The tools in their environment; only CI installs them for a test."""
    ready = TOOLS / "tools-installed"
    if ready.exists() or os.environ.get("CI", "").lower() in {"1", "true"}:
        installed = make(ROOT, str(ready.relative_to(ROOT)), seconds=INSTALL_SECONDS)
        assert installed.returncode == 0, installed.stdout
        return
    unavailable("the tools of the site are not installed: run make docs once")


def test_the_site_is_whole_and_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """One build of a copy with two broken links: it tells of these alone, and makes the rest."""
    with_tools()
    tree, site = tmp_path / "tree", tmp_path / "site"
    shutil.copytree(ROOT, tree, ignore=MADE, copy_function=copied)
    guide, broken = tree / "docs/how-to.md", ("retrieval.md#no-such-heading", "no-such-guide.md")
    guide.write_text(guide.read_text() + "".join(f"\n[More]({link}).\n" for link in broken))
    built = make(tree, "docs", f"DOCS_VENV={TOOLS}", f"DOCS_SITE={site}", seconds=BUILD_SECONDS)
    assert built.returncode != 0
    complaints = re.findall(r"^(?:WARNING|ERROR) .*", built.stdout, re.MULTILINE)
    assert len(complaints) == len(broken), built.stdout
    assert all(link.rpartition("#")[2] in "".join(complaints) for link in broken), built.stdout
    assert "Aborted with 2 warnings in strict mode" in built.stdout

    pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
    assert {f"docs/{page.stem}.html" for page in ROOT.glob("docs/[a-z]*.md")} <= pages.keys()
    others = ("index.html", "docs/index.html", "benchmarks/index.html", "CHANGELOG.html")
    assert pages.keys() >= set(others)
    for name, page in pages.items():
        loaded = re.findall(r"<script[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)", page)
        assert not [url for urls in loaded for url in urls if "//" in url], name
    # Links to what is not a page: a file is copied, a folder becomes the page about it.
    assert (site / "deploy/prometheus/alerts.yml").is_file()
    assert 'href="../protos/index.html"' in pages["docs/api.html"]
    # An item within an item, as the repository's pages indent it.
    assert re.search(
        r"<li>[^<]*(<p>)?[^<]*.*?<ul>\s*<li>A snapshot", pages["docs/design.html"], re.S
    )
    # Items that follow the lines of others without an empty line between them.
    assert re.search(r"<li>\s*(<p>)?The statements are", pages["docs/offline-extractor.html"])
    assert re.search(r"<ul>\s*<li>(<p>)?a different value", pages["docs/offline-extractor.html"])
    assert 'class="mermaid"' in pages["docs/concepts.html"]
    assert '<script src="../assets/mermaid.min.js">' in pages["docs/concepts.html"]
    assert "mermaid.min.js" not in pages["docs/glossary.html"]
    assert (site / "assets/mermaid.min.js").stat().st_size > 1_000_000

    told = re.findall(r"^- \[.+\]\((.+)\): .+", (site / "llms.txt").read_text(), re.MULTILINE)
    listed = re.findall(r"^\| \[", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert len(told) == len(listed) > 30
    for path in told:
        assert (site / path).read_bytes() == (tree / path).read_bytes(), path

    # Last, because a machine without a browser skips here.
    if missing := missing_tools():
        unavailable(
            f"the site is whole, but there is no {' and no '.join(missing)} to draw pictures"
        )
    with open_browser() as browser:
        for guide in ROOT.glob("docs/*.md"):
            for picture in re.findall(r"^```mermaid\n(.*?)^```", guide.read_text(), re.S | re.M):
                browser.open(f"{site.as_uri()}/docs/{guide.stem}.html")
                assert browser.script(PARSE, picture) == "", guide.name
                assert browser.script(PARSE, f"{picture}\n] -->") != ""
