"""A small lexicon of common technologies, to tell topics and to fill the profile."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Technology:
    """A technology found in a text.

    Attributes:
        name: As its makers write it.
        kind: `language`, `framework` (libraries, databases, platforms) or `tool`.
        start: Where it stands in the text.
    """

    name: str
    kind: str
    start: int


_LANGUAGES = (
    "Python JavaScript TypeScript Java Kotlin Swift Rust Ruby PHP Scala Haskell Elixir Erlang "
    "Clojure Julia Perl Lua Dart Fortran COBOL Zig OCaml Bash SQL MATLAB Solidity HTML CSS"
).split()
# Written with signs, or ordinary words: matched as written, by a pattern of their own.
_LANGUAGE_PATTERNS = {
    "C++": r"C\+\+",
    "C#": r"C#",
    "Go": r"(?-i:Go|GO)(?!\s+(?:to|and|on|for)\b)|golang",
    "Objective-C": r"Objective-C",
    "R": r"(?<=\bin )(?-i:R)",
}
_FRAMEWORKS = (
    "React Vue Angular Svelte Django Flask FastAPI Rails Laravel Symfony Express NestJS Next.js "
    "Nuxt Spring Flutter Electron Docker Kubernetes Terraform Ansible Helm Redis Postgres "
    "PostgreSQL MySQL MariaDB MongoDB SQLite Elasticsearch Kafka RabbitMQ GraphQL gRPC AWS Azure "
    "GCP Firebase Supabase Heroku Vercel Nginx Jenkins TensorFlow PyTorch Keras Pandas NumPy "
    "Spark Airflow Tailwind Bootstrap jQuery Webpack Vite Socket.io Unity Godot LangChain "
    "Prometheus Grafana Celery SQLAlchemy Pydantic OAuth JWT Neo4j Cassandra Snowflake pgvector "
    "Deno Bun WordPress Shopify ROS OpenCV Arduino"
).split()
_FRAMEWORK_PATTERNS = {
    "Node.js": r"Node(?:\.?js)",
    "Raspberry Pi": r"Raspberry\s+Pi",
    "Spring Boot": r"Spring\s+Boot",
    "React Native": r"React\s+Native",
    "scikit-learn": r"scikit-learn|sklearn",
    ".NET": r"\.NET",
    "CORS": r"(?-i:CORS)",
    "CI/CD": r"CI/CD",
}
_TOOLS = (
    "Git GitHub GitLab Jira Figma Notion Obsidian Neovim Vim Emacs tmux IntelliJ PyCharm "
    "Photoshop Illustrator Excel PowerPoint Slack Trello Linux Ubuntu Windows macOS Android iOS "
    "Blender AutoCAD Postman Tableau"
).split()
_TOOL_PATTERNS = {"VS Code": r"VS\s*Code|Visual\s+Studio\s+Code", "Power BI": r"Power\s*BI"}

# Ordinary words too: only with a capital.
_WRITTEN = frozenset(
    "Swift Ruby Rust Julia Dart Bash Perl React Angular Flask Express Spring Electron Helm Spark "
    "Unity Celery Windows Slack Notion Linux Excel Illustrator Bootstrap Rails Snowflake Azure "
    "Bun Cassandra Java Git Vite ROS Scala".split()
)


def _entries() -> list[tuple[str, str, str]]:
    entries = []
    for kind, names, patterns in (
        ("language", _LANGUAGES, _LANGUAGE_PATTERNS),
        ("framework", _FRAMEWORKS, _FRAMEWORK_PATTERNS),
        ("tool", _TOOLS, _TOOL_PATTERNS),
    ):
        entries += [(name, kind, text) for name, text in patterns.items()]
        for name in names:
            form = re.escape(name)
            shouted = f"(?-i:{form}|{re.escape(name.upper())})"
            entries.append((name, kind, shouted if name in _WRITTEN else form))
    # A longer name wins over a part of it.
    return sorted(entries, key=lambda entry: -len(entry[0]))


_ENTRIES = _entries()
_PATTERN = re.compile(
    r"(?<![\w.@/-])(?:"
    + "|".join(f"(?P<t{index}>{text})" for index, (_, _, text) in enumerate(_ENTRIES))
    + r")(?![\w#+])",
    re.IGNORECASE,
)
_NOUNS = re.compile(
    r"\s+(deployments?|deploy|integration|connections?|builds?|errors?|scripts?|containers?|"
    r"quer(?:y|ies)|tests?|testing|setup|migrations?|optimi[sz]ation|clusters?|functions?|"
    r"pipelines?|performance|cache|caching|images?|networking|components?|hooks?)\b",
    re.IGNORECASE,
)


def find_technologies(text: str) -> list[Technology]:
    """Name the technologies in `text`, each once, in order of appearance."""
    found: dict[str, Technology] = {}
    for match in _PATTERN.finditer(text):
        name, kind, _ = _ENTRIES[int((match.lastgroup or "t0")[1:])]
        found.setdefault(name, Technology(name, kind, match.start()))
    return list(found.values())


def technical_phrases(text: str) -> list[str]:
    """Technologies with the noun that follows them, such as "Docker deployment"."""
    phrases: dict[str, None] = {}
    for match in _PATTERN.finditer(text):
        name = _ENTRIES[int((match.lastgroup or "t0")[1:])][0]
        noun = _NOUNS.match(text, match.end())
        phrases.setdefault(f"{name} {noun.group(1).lower()}" if noun else name)
    return list(phrases)
