"""The list of all that writes what a read of a person may hold.

What stands here is written in transactions that raise the person's revision: by `users.lock_user`,
`enter_alone`, `lock_alone` or `lock_all`, or by `upkeep.lock_users`. That each does is proven
wherever a test makes it write (`tests/revisions.py`); that there is no other, here. A new writer is
put on the list by somebody who has seen to it that it raises revisions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.revisions import HELD_TABLES

ROOT = Path(__file__).resolve().parents[2]

NAMED_ELSEWHERE = "a table that is put into the statement"

WRITERS = {
    "clearing": {"memories", "memory_embeddings", "preferences"},
    "corpora/documents": {"document_chunk_embeddings", "document_chunks"},
    "corpora/index": {"passage_postings", "passage_statistics"},
    "corpora/memories": {"memories", "memory_embeddings", "memory_source_embeddings"},
    "corpora/messages": {"message_embeddings", "messages"},
    "corpora/summaries": {"conversation_summaries", "summary_embeddings"},
    "consolidation": {"entities", "entity_mentions", "memory_sources"},
    "conversation_removal": {"memories", "memory_sources"},
    "conversations": {"messages"},
    "document_mentions": {"document_mentions", "entities"},
    "documents": {"document_chunks", "documents"},
    "editing": {"memories", "memory_embeddings"},
    # Of persons whose row is marked as erased, of whom nothing is told any more.
    "erasure": {NAMED_ELSEWHERE},
    # All that an import knows.
    "imported": {NAMED_ELSEWHERE, "memories"},
    "keyword_index": {"passage_postings", "postings"},
    "memories": {"memories", "memory_embeddings", "memory_source_embeddings", "memory_sources"},
    "mentions": {"entities", "entity_mentions"},
    "preferences": {"preferences"},
    "profiles": {"profiles"},
    # Only which texts wait for a vector.
    "reembedding": {"memories"},
    "reindexing": {"memories", "postings"},
    "removal": {
        NAMED_ELSEWHERE, "entities", "entity_mentions", "memories", "memory_embeddings",
        "memory_source_embeddings", "memory_sources", "messages", "profiles",
    },
    "reconciliation": {"memory_sources"},
    "rollback": {"entity_mentions", "memories", "memory_source_embeddings", "memory_sources"},
    "sealing": {NAMED_ELSEWHERE, "summary_embeddings"},
    "summaries": {"conversation_summaries"},
    "told_words": {"memories", "memory_sources"},
    "upkeep": {"memories", "memory_embeddings"},
}  # fmt: skip
"""By module of the extraction service's storage."""

_WRITES = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?([\w{]+)"
)
_NAMED = re.compile(r"(?:\.format\(\s*table=|\b(?:_delete|delete_all)\(user, )\"(\w+)\"")
STORAGE = Path("services/extraction/hitherto_extraction/storage")


def found() -> Mapping[str, set[str]]:
    """The modules of the product that write held tables, and which."""
    modules: dict[str, set[str]] = {}
    for top in ("services", "shared"):
        for path in sorted((ROOT / top).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            written = {*_WRITES.findall(source), *_NAMED.findall(source)}
            tables = written.intersection(HELD_TABLES)
            if any(table.startswith("{") for table in written):
                tables.add(NAMED_ELSEWHERE)
            if tables:
                place = path.relative_to(ROOT)
                inside = place.is_relative_to(STORAGE)
                modules[str(place.relative_to(STORAGE).with_suffix("") if inside else place)] = (
                    tables
                )
    return modules


def broken() -> Sequence[str]:
    """The writers that are not listed with what they write, or no longer write it."""
    here = found()
    return [
        f"{module} writes {sorted(here.get(module, ()))}, and {Path(__file__).name} lists"
        f" {sorted(WRITERS.get(module, ()))}: does it raise the revisions of those it writes about?"
        for module in sorted(here.keys() | WRITERS.keys())
        if here.get(module) != WRITERS.get(module)
    ]
