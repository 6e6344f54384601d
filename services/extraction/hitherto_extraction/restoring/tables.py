"""The tables of an export that are imported, and of their columns what the catalogue cannot tell.

The limits are those of the write path. Columns that number or describe index entries are computed
anew, and tables that hold only such columns are left out with the log of the installation.
"""

from __future__ import annotations

from collections.abc import Mapping

from hitherto_extraction.restoring.columns import (
    Kind,
    free,
    name,
    one_of,
    several,
    text,
    time_zone,
    whole,
)
from hitherto_extraction.restoring.shapes import CONTEXT_ITEMS, DOUBT, SAID_AT, SOURCES
from hitherto_shared.convert import ORIGIN

USERS = "users"
OWNERS = frozenset({"tenant_id", "user_id"})
"""Columns that name whose record it is: the calling tenant's, and the named user's."""

_KIB = 1024
_DAYS = whole(0, 36_500)
_ACTOR = text(2 * _KIB, required=True)
_LARGE_OBJECT = free(1024 * _KIB)

IMPORTED: Mapping[str, Mapping[str, Kind]] = {
    USERS: {"retention_days": _DAYS, "message_retention_days": _DAYS, "time_zone": time_zone},
    "profiles": {
        "department": name(256, required=False),
        "summary": text(16 * _KIB),
        "said_at": SAID_AT,
        "sources": SOURCES,
    },
    "profile_versions": {"actor": _ACTOR},
    "conversations": {"time_zone": time_zone},
    "messages": {
        "context_items": CONTEXT_ITEMS,
        "pending_action_ids": several(name(256), 200),
        # No column: only a sealed value holds it.
        "unredacted": text(64 * _KIB),
    },
    "conversation_summaries": {"title": text(_KIB, required=True)},
    "documents": {
        "title": text(4 * _KIB),
        "content": text(4 * _KIB * _KIB),
        "author": text(_KIB),
    },
    "document_chunks": {},
    "entities": {"name_key": text(4 * _KIB), "aliases": several(name(256), 1_000)},
    "memories": {"doubt": DOUBT},
    "memory_versions": {"doubt": DOUBT},
    "memory_sources": {},
    "memory_access": {},
    "entity_mentions": {},
    "document_mentions": {},
    "preferences": {"value": free(64 * _KIB, None)},
    "feedback": {},
    "history": {
        "actor": _ACTOR,
        "before": _LARGE_OBJECT,
        "after": _LARGE_OBJECT,
    },
    "statements": {"origin": one_of(*ORIGIN.values()), "said": _LARGE_OBJECT},
    "consolidation_groups": {"tag": text(_KIB, required=True)},
    "session_contexts": {},
    "recent_items": {"items": CONTEXT_ITEMS},
    "pending_actions": {},
}
"""What is imported: by table, the values of columns of which the catalogue says too little."""

COMPUTED = OWNERS.union(
    "lexical_no lexical_length embedding_state text_version sealed_version".split(),
    # What a user is to this installation.
    "erased_at last_lexical_no lexical_documents lexical_terms to_seal key_id revision".split(),
    ("words_to_sweep", "importing_until"),
)
"""Columns that are not imported, besides those that Postgres computes."""

NEVER_EXPORTED = frozenset({"sealed", "audit_key"})

LEFT_OUT = frozenset(
    # The log of an installation, and credentials for it.
    "api_keys audit_events audit_read_counts erased_users idempotency_keys jobs memory_changes "
    "unusable_replies usage_ledger webhook_deliveries webhooks "
    # Computed anew.
    "document_chunk_embeddings memory_embeddings memory_source_embeddings message_embeddings "
    "passage_postings passage_statistics postings sealed_embeddings summary_embeddings".split()
)
"""Tables of an export that are never imported."""
