"""The tables of an export that are imported, and what their columns may hold.

The limits are those of the write path. Columns that number or describe index entries are computed
anew, and tables that hold only such columns are left out with the log of the installation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.restoring.columns import (
    ImportedColumn,
    digest,
    flag,
    free,
    moment,
    name,
    one_of,
    optional,
    several,
    share,
    text,
    time_zone,
    uid,
    whole,
)
from hitherto_extraction.restoring.shapes import (
    CONTEXT_ITEMS,
    PROFILE,
    check_ending,
    check_said,
    said_at,
)
from hitherto_shared.convert import (
    CONFIDENCE,
    ENTITY_TYPE,
    MEMORY_SOURCE,
    MEMORY_STATUS,
    MEMORY_TYPE,
    ORIGIN,
    OUTCOME,
    ROLE,
)
from hitherto_shared.validation import Checks

USERS = "users"
OWNERS = frozenset({"tenant_id", "user_id"})
"""Columns that name whose record it is: the calling tenant's, and the named user's."""

_KIB = 1024
_ID = ImportedColumn(name(256))
_UID = ImportedColumn(uid)
_UID_OR_NONE = ImportedColumn(optional(uid), None)
_UIDS = ImportedColumn(several(uid, 10_000), [])
_MOMENT = ImportedColumn(moment)
_MOMENT_OR_NONE = ImportedColumn(optional(moment), None)
# Whatever is counted goes on: the largest number of its type would admit no further change.
_COUNT = ImportedColumn(whole(0, 10**9))
_POSITIVE = ImportedColumn(whole(1, 10**9))
_LABELS = ImportedColumn(several(text(1024), 1_000), [])
_OBJECT = ImportedColumn(free(128 * _KIB), {})
_LARGE_OBJECT = ImportedColumn(free(1024 * _KIB), {})
_LARGE_OBJECT_OR_NONE = ImportedColumn(optional(free(1024 * _KIB)), None)
_WORDS = ImportedColumn(text(64 * _KIB), "")
_IS_TRUE = ImportedColumn(flag, default=False)
_CHOSEN = ImportedColumn(optional(flag), None)
_DAYS = ImportedColumn(optional(whole(0, 36_500)), None)

_STATUS = one_of(*MEMORY_STATUS.values())
_ORIGIN = ImportedColumn(one_of(*ORIGIN.values()))
_MEMORY: Mapping[str, ImportedColumn] = {
    "memory_id": _UID,
    "version": _POSITIVE,
    "type": ImportedColumn(one_of(*MEMORY_TYPE.values())),
    "content": ImportedColumn(text(8 * _KIB, required=True)),
    "detail": ImportedColumn(text(8 * _KIB), ""),
    "importance": ImportedColumn(share),
    "confidence": ImportedColumn(one_of(*CONFIDENCE.values())),
    "origin": _ORIGIN,
    "status": ImportedColumn(_STATUS),
    "tags": _LABELS,
    "keywords": _LABELS,
    "context": _OBJECT,
    "metadata": _OBJECT,
    "sensitive": _IS_TRUE,
    "valid_from": _MOMENT,
    "valid_to": _MOMENT_OR_NONE,
    "expires_at": _MOMENT_OR_NONE,
    "superseded_by": _UID_OR_NONE,
    "supersedes": _UIDS,
    "job_id": _UID_OR_NONE,
}


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table whose records are imported.

    Attributes:
        columns: What its records hold.
        computed: Columns that are computed anew, separated by spaces.
        also: Checks what depends on several columns of a checked row.
    """

    columns: Mapping[str, ImportedColumn]
    computed: str = ""
    also: Callable[[Checks, str, dict[str, Any]], None] | None = None

    @property
    def ignored(self) -> frozenset[str]:
        """Columns that are not imported."""
        return OWNERS.union(self.computed.split())


IMPORTED: Mapping[str, ImportedTable] = {
    USERS: ImportedTable(
        {
            "created_at": _MOMENT,
            "memory_enabled": _CHOSEN,
            "learning_enabled": _CHOSEN,
            "retention_days": _DAYS,
            "message_retention_days": _DAYS,
            "encrypt_sensitive": _CHOSEN,
            "time_zone": ImportedColumn(optional(time_zone), None),
        },
        "erased_at last_lexical_no lexical_documents lexical_terms to_seal key_id revision",
    ),
    "profiles": ImportedTable(
        {
            "department": ImportedColumn(name(256, required=False), ""),
            "summary": ImportedColumn(text(16 * _KIB), ""),
            "current_projects": _LABELS,
            "preferences": _OBJECT,
            "frequent_intents": _LABELS,
            "access_level": ImportedColumn(name(64, required=False), "standard"),
            "facts": _OBJECT,
            "metadata": _OBJECT,
            "said_at": ImportedColumn(said_at, {}),
            "version": _POSITIVE,
            "last_extracted_at": _MOMENT_OR_NONE,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        }
    ),
    "profile_versions": ImportedTable(
        {
            "version": _POSITIVE,
            "profile": ImportedColumn(PROFILE),
            "actor": ImportedColumn(text(2 * _KIB, required=True)),
            "job_id": _UID_OR_NONE,
            "recorded_at": _MOMENT,
        }
    ),
    "conversations": ImportedTable(
        {
            "conversation_id": _ID,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "ended_at": _MOMENT_OR_NONE,
            "time_zone": ImportedColumn(time_zone, "UTC"),
            "last_message_no": _COUNT,
            "watermark": _COUNT,
            "last_said_at": _MOMENT_OR_NONE,
        }
    ),
    "messages": ImportedTable(
        {
            "conversation_id": _ID,
            "message_no": _POSITIVE,
            "message_id": _ID,
            "role": ImportedColumn(one_of(*ROLE.values())),
            "name": ImportedColumn(name(256, required=False), ""),
            "content": ImportedColumn(text(64 * _KIB)),
            "said_at": _MOMENT,
            "accepted_at": _MOMENT,
            "context_items": ImportedColumn(CONTEXT_ITEMS, []),
            "pending_action_ids": ImportedColumn(several(name(256), 200), []),
            "metadata": _OBJECT,
        },
        "lexical_no lexical_length embedding_state",
    ),
    "conversation_summaries": ImportedTable(
        {
            "conversation_id": _ID,
            "title": ImportedColumn(text(1024, required=True)),
            "summary": _WORDS,
            "key_topics": _LABELS,
            "technical_topics": _LABELS,
            "outcome": ImportedColumn(one_of(*OUTCOME.values())),
            "followup_suggestions": _LABELS,
            "covers_to": _COUNT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        },
        "lexical_no lexical_length embedding_state text_version sealed_version",
    ),
    "documents": ImportedTable(
        {
            "document_id": _UID,
            "source_type": ImportedColumn(name(64)),
            "source_id": ImportedColumn(name(1024)),
            "content_type": ImportedColumn(name(64, required=False), ""),
            "title": ImportedColumn(text(4 * _KIB), ""),
            "summary": _WORDS,
            "content": ImportedColumn(text(4 * _KIB * _KIB), ""),
            "author": ImportedColumn(text(_KIB), ""),
            "metadata": _OBJECT,
            "source_created_at": _MOMENT,
            "content_hash": ImportedColumn(digest),
            "ingested_hash": ImportedColumn(optional(digest), None),
            "ingested_heading": _WORDS,
            "job_id": _UID_OR_NONE,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": _MOMENT_OR_NONE,
        }
    ),
    "document_chunks": ImportedTable(
        {
            "document_id": _UID,
            "chunk_id": _UID,
            "position": _COUNT,
            "content": ImportedColumn(text(64 * _KIB, required=True)),
        },
        "lexical_no lexical_length embedding_state",
    ),
    "entities": ImportedTable(
        {
            "entity_id": _UID,
            "name": _ID,
            "name_key": ImportedColumn(text(4 * _KIB)),
            "type": ImportedColumn(one_of(*ENTITY_TYPE.values())),
            "aliases": ImportedColumn(several(name(256), 1_000), []),
            "mention_count": _COUNT,
            "metadata": _OBJECT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        },
        "called",
    ),
    "memories": ImportedTable(
        {
            **_MEMORY,
            "source": ImportedColumn(one_of(*MEMORY_SOURCE.values())),
            "conversation_id": ImportedColumn(optional(name(256)), None),
            "said_at": _MOMENT,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "challenges": _UIDS,
            "questions": _LABELS,
        },
        "lexical_no lexical_length embedding_state text_version",
        also=check_ending,
    ),
    "memory_versions": ImportedTable(
        {
            **_MEMORY,
            "said_at": _MOMENT_OR_NONE,
            "known_from": _MOMENT,
            "known_to": _MOMENT,
        },
        "sealed_version",
        also=check_ending,
    ),
    "memory_sources": ImportedTable(
        {"memory_id": _UID, "conversation_id": _ID, "message_id": _ID}, "source_key"
    ),
    "memory_access": ImportedTable(
        {
            "memory_id": _UID,
            "access_count": ImportedColumn(whole(0, 2**53)),
            "last_accessed_at": _MOMENT,
        }
    ),
    "entity_mentions": ImportedTable({"entity_id": _UID, "memory_id": _UID}),
    "document_mentions": ImportedTable(
        {
            "entity_id": _UID,
            "document_id": _UID,
            "names": ImportedColumn(several(text(_KIB), 1_000), []),
        }
    ),
    "preferences": ImportedTable(
        {
            "type": ImportedColumn(name(64)),
            "key": ImportedColumn(name(64)),
            "value": ImportedColumn(free(64 * _KIB, None)),
            "confidence": ImportedColumn(share),
            "observations": _POSITIVE,
            "updated_at": _MOMENT,
        }
    ),
    "feedback": ImportedTable(
        {
            "feedback_id": _UID,
            "conversation_id": _ID,
            "message_id": _ID,
            "rating": ImportedColumn(optional(whole(1, 5)), None),
            "original": ImportedColumn(optional(text(64 * _KIB)), None),
            "edited": ImportedColumn(optional(text(64 * _KIB)), None),
            "memory_ids": _UIDS,
            "created_at": _MOMENT,
        }
    ),
    "history": ImportedTable(
        {
            "event_id": _UID,
            "recorded_at": _MOMENT,
            "subject": ImportedColumn(one_of("memory", "profile")),
            "memory_id": _UID_OR_NONE,
            "action": ImportedColumn(
                one_of(
                    *"created updated merged contradicted superseded achieved archived".split(),
                    *"quarantined forgotten restored approved rejected rolled_back expired".split(),
                )
            ),
            "version": _COUNT,
            "actor": ImportedColumn(text(2 * _KIB, required=True)),
            "reason": _WORDS,
            "job_id": _UID_OR_NONE,
            "before": _LARGE_OBJECT_OR_NONE,
            "after": _LARGE_OBJECT_OR_NONE,
            "related_memory_id": _UID_OR_NONE,
        }
    ),
    "statements": ImportedTable(
        {
            "statement_id": _UID,
            "subject": ImportedColumn(one_of("memory", "profile", "summary")),
            "memory_id": _UID_OR_NONE,
            "conversation_id": ImportedColumn(optional(name(256)), None),
            "document_id": _UID_OR_NONE,
            "job_id": _UID_OR_NONE,
            "action": ImportedColumn(
                one_of(*"said updated closed challenged joined patched concluded taken".split())
            ),
            "version": _COUNT,
            "made_version": _IS_TRUE,
            "origin": _ORIGIN,
            "said_at": _MOMENT,
            "said": _LARGE_OBJECT,
            "recorded_at": _MOMENT,
            "taken_back_at": _MOMENT_OR_NONE,
        },
        also=check_said,
    ),
    "consolidation_groups": ImportedTable(
        {
            "tag": ImportedColumn(text(_KIB, required=True)),
            "fingerprint": ImportedColumn(digest),
            "members": _COUNT,
            "job_id": _UID_OR_NONE,
            "examined_at": _MOMENT,
        }
    ),
    "session_contexts": ImportedTable(
        {
            "session_id": _ID,
            "context": _OBJECT,
            "updated_at": _MOMENT,
            "expires_at": _MOMENT,
        }
    ),
    "recent_items": ImportedTable(
        {
            "items": ImportedColumn(CONTEXT_ITEMS),
            "updated_at": _MOMENT,
            "expires_at": _MOMENT,
        }
    ),
    "pending_actions": ImportedTable(
        {
            "action_id": _ID,
            "session_id": _ID,
            "type": ImportedColumn(name(64)),
            "params": _OBJECT,
            "description": ImportedColumn(text(16 * _KIB), ""),
            "state": ImportedColumn(
                one_of("pending_confirmation", "confirmed", "completed", "rejected")
            ),
            "result": ImportedColumn(optional(free(128 * _KIB)), None),
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": _MOMENT,
        }
    ),
}
"""What is imported, by table."""

LEFT_OUT = frozenset(
    {
        # The log of an installation, and credentials for it.
        "api_keys",
        "audit_events",
        "audit_read_counts",
        "erased_users",
        "idempotency_keys",
        "jobs",
        "unusable_replies",
        "usage_ledger",
        # Computed anew.
        "document_chunk_embeddings",
        "memory_embeddings",
        "memory_source_embeddings",
        "message_embeddings",
        "passage_postings",
        "passage_statistics",
        "postings",
        "sealed_embeddings",
        "summary_embeddings",
    }
)
"""Tables of an export that are never imported."""
