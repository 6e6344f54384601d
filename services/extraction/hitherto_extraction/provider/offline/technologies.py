"""A small lexicon of common technologies, to recognise topics and to fill the profile."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A name in capitals only where it is an ordinary word, too, is marked with "!".
_NAMES = {
    "language": "Python JavaScript TypeScript !Java Kotlin !Swift !Rust !Ruby PHP !Scala Haskell "
    "Elixir Erlang Clojure !Julia !Perl Lua !Dart Fortran COBOL Zig OCaml !Bash SQL HTML CSS",
    "framework": "!React Vue !Angular Svelte Django !Flask FastAPI !Rails Laravel Symfony !Express "
    "NestJS Next.js Nuxt !Spring Flutter !Electron Docker Kubernetes Terraform Ansible !Helm Redis "
    "Postgres PostgreSQL MySQL MariaDB MongoDB SQLite Elasticsearch Kafka RabbitMQ GraphQL gRPC "
    "AWS !Azure GCP Firebase Supabase Heroku Vercel Nginx Jenkins TensorFlow PyTorch Keras Pandas "
    "NumPy !Spark Airflow Tailwind !Bootstrap jQuery Webpack !Vite !Unity Godot Prometheus "
    "Grafana !Celery SQLAlchemy Pydantic OAuth JWT Neo4j !Snowflake pgvector Deno WordPress OpenCV "
    "Arduino BigQuery",
    "tool": "!Git GitHub GitLab Jira Figma !Notion Obsidian Neovim Vim Emacs tmux IntelliJ PyCharm "
    "Photoshop !Excel PowerPoint !Slack Trello !Linux Ubuntu !Windows macOS Android iOS Blender "
    "AutoCAD Postman Tableau",
}
# Written with signs or blanks: a pattern of their own.
_PATTERNS = {
    "C++": ("language", r"C\+\+"),
    "C#": ("language", r"C#"),
    "Go": ("language", r"(?-i:Go|GO)(?! (?:to|and|on|for)\b)|golang"),
    "Node.js": ("framework", r"Node\.?js"),
    "Spring Boot": ("framework", r"Spring Boot"),
    "React Native": ("framework", r"React Native"),
    "CORS": ("framework", r"(?-i:CORS)"),
    "VS Code": ("tool", r"VS ?Code|Visual Studio Code"),
    "Power BI": ("tool", r"Power ?BI"),
}


@dataclass(frozen=True, slots=True)
class Technology:
    """A technology found in a text: its name, and whether `language`, `framework` or `tool`."""

    name: str
    kind: str


def _entries() -> list[tuple[Technology, str]]:
    entries = [(Technology(name, kind), text) for name, (kind, text) in _PATTERNS.items()]
    for kind, names in _NAMES.items():
        for name in names.split():
            plain = name.lstrip("!")
            form = re.escape(plain)
            written = f"(?-i:{form}|{form.upper()})" if name != plain else form
            entries.append((Technology(plain, kind), written))
    # A longer name wins over a part of it.
    return sorted(entries, key=lambda entry: -len(entry[0].name))


_ENTRIES = _entries()
_PATTERN = re.compile(
    r"(?<![\w.@/-])(?:"
    + "|".join(f"(?P<t{index}>{text})" for index, (_, text) in enumerate(_ENTRIES))
    + r")(?![\w#+])",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r" (deployments?|integration|connections?|builds?|errors?|scripts?|containers?|quer(?:y|ies)|"
    r"tests?|setup|migrations?|clusters?|functions?|pipelines?|performance|cache|images?)\b",
    re.IGNORECASE,
)


def _found(match: re.Match[str]) -> Technology:
    return _ENTRIES[int((match.lastgroup or "t0")[1:])][0]


def find_technologies(text: str) -> list[Technology]:
    """Name the technologies in `text`, each once, in order of appearance."""
    return list(dict.fromkeys(_found(match) for match in _PATTERN.finditer(text)))


def technical_phrases(text: str) -> list[str]:
    """Technologies with the noun that follows them, such as "Docker deployment"."""
    phrases: dict[str, None] = {}
    for match in _PATTERN.finditer(text):
        noun = _NOUN.match(text, match.end())
        phrases.setdefault(_found(match).name + (noun[0].lower() if noun else ""))
    return list(phrases)
