"""Hooks of MkDocs: the repository's pages become a web site without being rewritten.

Every file keeps its path from the top of the repository, so relative links mean the same on the
site. The pages are docs/*.md, those of the navigation, and whatever these link to.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.prefix)
"""The environment of the tools; docs.mk puts the drawing library there."""
LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)\s#:]+)(?P<after>(?:#[^)\s]*)?\))")
ITEM = re.compile(r" *(?:[-*]|\d+\.) +")
INTERRUPTING = re.compile(r" *(?:[-*]|1\.) +")
"""The items that may follow a line of text; any other number there is the text's."""
ROW = re.compile(r"\| \[[^]]+\]\((?P<path>[^)]+)\) \| (?P<told>.+) \|")
MERMAID = "assets/mermaid.min.js"


def on_files(files: Files, config: Any) -> Files:
    """The pages and the files that they link to, in place of what `docs_dir` contains."""
    theme = [file for file in files if file.inclusion.is_included() and _of_theme(file, config)]
    waiting = [path.relative_to(ROOT) for path in ROOT.glob("docs/*.md")]
    waiting += (Path(path) for path in _leaves(config.nav))
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in found or not (ROOT / path).is_file():
            continue
        found.add(path)
        if path.suffix == ".md":
            waiting += (Path(_target(link, path)) for link in LINK.finditer(_text(path)))
    pages = [
        File.generated(config, path.as_posix(), abs_src_path=str(ROOT / path))
        for path in sorted(found)
    ]
    drawing = File.generated(config, MERMAID, abs_src_path=str(TOOLS / "mermaid.min.js"))
    return Files([*theme, *pages, drawing])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to folders into links to the page about them, and indent lists for this parser."""
    source = Path(page.file.src_uri)

    def to_page(link: re.Match[str]) -> str:
        target = _target(link, source)
        if not (ROOT / target).is_dir():
            return link[0]
        about = next(
            folder / "README.md"
            for folder in (PurePosixPath(target), *PurePosixPath(target).parents)
            if (ROOT / folder / "README.md").is_file()
        )
        return f"{link['before']}{os.path.relpath(about, source.parent)})"

    return indented(LINK.sub(to_page, markdown))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Load the drawing library before the theme looks for it, where there is something to draw."""
    if 'class="mermaid"' not in output:
        return output
    above = "../" * page.url.count("/")
    return output.replace("</head>", f'<script src="{above}{MERMAID}"></script></head>', 1)


def on_post_build(config: Any) -> None:
    """Write llms.txt, and each page's source beside it for whoever reads Markdown."""
    site = Path(config.site_dir)
    for built in site.rglob("*.html"):
        page = built.relative_to(site)
        source = page.with_suffix(".md")
        if page.name == "index.html":
            source = page.with_name("README.md")
        if (ROOT / source).is_file():
            shutil.copyfile(ROOT / source, site / source)
    (site / "llms.txt").write_text(llms_txt(_text(Path("docs/README.md"))), "utf-8")


def llms_txt(index: str) -> str:
    """The list of pages in docs/README.md in the form of https://llmstxt.org."""
    lines = [
        "# Hitherto",
        "",
        "> Long-term memory for AI assistants: two gRPC services over Postgres with pgvector.",
        "",
        "[README](README.md) has the first steps.",
    ]
    for line in index.splitlines():
        if re.fullmatch(r"\*\*.+\*\*", line):
            lines += ["", f"## {line.strip('*')}", ""]
        elif row := ROW.fullmatch(line):
            path = os.path.normpath(f"docs/{row['path']}")
            lines.append(f"- [{path}]({path}): {row['told']}")
    return "\n".join(lines) + "\n"


def indented(markdown: str) -> str:
    """Indent what belongs to a list item by four spaces per level, which Python-Markdown demands.

    It also demands an empty line before an item after several lines or paragraphs of text.
    In the repository's pages the text of an item begins right after its mark: two or three spaces
    in.
    """
    lines: list[str] = [""]
    levels: list[int] = []  # where the text of each open item begins
    fence = paragraphs = False
    for line in markdown.splitlines():
        if not line.strip():
            lines.append("")
            paragraphs = True
            continue
        indent = len(line) - len(line.lstrip(" "))
        starts = not lines[-1]
        while levels and indent < levels[-1] and not fence:
            levels.pop()
            starts = True
        item = None if fence else (ITEM if starts else INTERRUPTING).match(line)
        if item and lines[-1] and (paragraphs or not starts):
            lines.append("")
        inside = levels[-1] if levels else 0
        lines.append(" " * (4 * len(levels) + max(indent - inside, 0)) + line.lstrip(" "))
        if line.lstrip().startswith("```"):
            fence = not fence
        elif item:
            levels.append(item.end())
            paragraphs = False
    return "\n".join(lines) + "\n"


def _leaves(nav: Any) -> Iterator[str]:
    """The paths in the navigation, which is made of lists and of mappings from titles."""
    if isinstance(nav, str):
        yield nav
        return
    for part in nav.values() if isinstance(nav, dict) else nav:
        yield from _leaves(part)


def _of_theme(file: File, config: Any) -> bool:
    return file.src_dir is not None and file.src_dir != config.docs_dir


def _target(link: re.Match[str], source: Path) -> str:
    return os.path.normpath(source.parent / link["path"])


def _text(path: Path) -> str:
    return (ROOT / path).read_text("utf-8")
