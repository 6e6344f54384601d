"""The tables of an export that are imported, and what their columns may hold.

The limits are those of the write path. Columns that number or describe index entries are computed
anew, and tables that hold only such columns are left out with the log of the installation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.restoring.columns import (
    Column,
    MayBeAbsent,
    digest,
    flag,
    free,
    moment,
    name,
    one_of,
    optional,
    several,
    shaped,
    share,
    text,
    time_zone,
    uid,
    whole,
)
from hitherto_extraction.restoring.shapes import (
    CONTEXT_ITEMS,
    PROFILE,
    STATEMENTS,
    check_ending,
    check_said,
    said_at,
    sources,
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
    SECRET_HANDLING,
)
from hitherto_shared.validation import Checks

USERS = "users"
OWNERS = frozenset({"tenant_id", "user_id"})
"""Columns that name whose record it is: the calling tenant's, and the named user's."""

_KIB = 1024
_ID = name(256)
_UID_OR_NONE = MayBeAbsent(optional(uid))
_UIDS = MayBeAbsent(several(uid, 10_000), [])
_MOMENT_OR_NONE = MayBeAbsent(optional(moment))
# Whatever is counted goes on: the largest number of its type would admit no further change.
_COUNT = whole(0, 10**9)
_POSITIVE = whole(1, 10**9)
_LABELS = MayBeAbsent(several(text(1024), 1_000), [])
_OBJECT = MayBeAbsent(free(128 * _KIB), {})
_LARGE_OBJECT = MayBeAbsent(free(1024 * _KIB), {})
_LARGE_OBJECT_OR_NONE = MayBeAbsent(optional(free(1024 * _KIB)))
_WORDS = MayBeAbsent(text(64 * _KIB), "")
_IS_TRUE = MayBeAbsent(flag, default=False)
_CHOSEN = MayBeAbsent(optional(flag))
_DAYS = MayBeAbsent(optional(whole(0, 36_500)))

_STATUS = one_of(*MEMORY_STATUS.values())
_ORIGIN = one_of(*ORIGIN.values())
_DOUBT = MayBeAbsent(
    optional(
        shaped(
            {"because": optional(uid), "reason": text(_KIB), "since": moment}, 4 * _KIB, closed=True
        )
    )
)
_MEMORY: Mapping[str, Column] = {
    "memory_id": uid,
    "version": _POSITIVE,
    "type": one_of(*MEMORY_TYPE.values()),
    "content": text(8 * _KIB, required=True),
    "detail": MayBeAbsent(text(8 * _KIB), ""),
    "importance": share,
    "confidence": one_of(*CONFIDENCE.values()),
    "origin": _ORIGIN,
    "status": _STATUS,
    "tags": _LABELS,
    "keywords": _LABELS,
    "context": _OBJECT,
    "metadata": _OBJECT,
    "sensitive": _IS_TRUE,
    "valid_from": moment,
    "valid_to": _MOMENT_OR_NONE,
    "expires_at": _MOMENT_OR_NONE,
    "superseded_by": _UID_OR_NONE,
    "supersedes": _UIDS,
    "job_id": _UID_OR_NONE,
    "may_replace": _UIDS,
    "doubt": _DOUBT,
}


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table whose records are imported.

    Attributes:
        columns: What its records hold.
        computed: Columns that are computed anew, separated by spaces.
        also: Checks what depends on several columns of a checked row.
    """

    columns: Mapping[str, Column]
    computed: str = ""
    also: Callable[[Checks, str, dict[str, Any]], None] | None = None

    @property
    def ignored(self) -> frozenset[str]:
        """Columns that are not imported."""
        return OWNERS.union(self.computed.split())


IMPORTED: Mapping[str, ImportedTable] = {
    USERS: ImportedTable(
        {
            "created_at": moment,
            "memory_enabled": _CHOSEN,
            "learning_enabled": _CHOSEN,
            "retention_days": _DAYS,
            "message_retention_days": _DAYS,
            "encrypt_sensitive": _CHOSEN,
            "time_zone": MayBeAbsent(optional(time_zone)),
            "redact_secrets": MayBeAbsent(optional(one_of(*SECRET_HANDLING.values()))),
        },
        "erased_at last_lexical_no lexical_documents lexical_terms to_seal key_id revision "
        "words_to_sweep importing_until",
    ),
    "profiles": ImportedTable(
        {
            "department": MayBeAbsent(name(256, required=False), ""),
            "summary": MayBeAbsent(text(16 * _KIB), ""),
            "current_projects": _LABELS,
            "preferences": _OBJECT,
            "frequent_intents": _LABELS,
            "access_level": MayBeAbsent(name(64, required=False), "standard"),
            "facts": _OBJECT,
            "metadata": _OBJECT,
            "said_at": MayBeAbsent(said_at, {}),
            "sources": MayBeAbsent(sources, {}),
            "version": _POSITIVE,
            "last_extracted_at": _MOMENT_OR_NONE,
            "created_at": moment,
            "updated_at": moment,
        }
    ),
    "profile_versions": ImportedTable(
        {
            "version": _POSITIVE,
            "profile": PROFILE,
            "actor": text(2 * _KIB, required=True),
            "job_id": _UID_OR_NONE,
            "recorded_at": moment,
        }
    ),
    "conversations": ImportedTable(
        {
            "conversation_id": _ID,
            "created_at": moment,
            "updated_at": moment,
            "ended_at": _MOMENT_OR_NONE,
            "time_zone": MayBeAbsent(time_zone, "UTC"),
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
            "role": one_of(*ROLE.values()),
            "name": MayBeAbsent(name(256, required=False), ""),
            "content": text(64 * _KIB),
            "said_at": moment,
            "accepted_at": moment,
            "context_items": MayBeAbsent(CONTEXT_ITEMS, []),
            "pending_action_ids": MayBeAbsent(several(name(256), 200), []),
            "metadata": _OBJECT,
            "unredacted": MayBeAbsent(optional(text(64 * _KIB))),
        },
        "lexical_no lexical_length embedding_state",
    ),
    "conversation_summaries": ImportedTable(
        {
            "conversation_id": _ID,
            "title": text(1024, required=True),
            "summary": _WORDS,
            "key_topics": _LABELS,
            "technical_topics": _LABELS,
            "outcome": one_of(*OUTCOME.values()),
            "followup_suggestions": _LABELS,
            "covers_to": _COUNT,
            "created_at": moment,
            "updated_at": moment,
        },
        "lexical_no lexical_length embedding_state text_version sealed_version",
    ),
    "documents": ImportedTable(
        {
            "document_id": uid,
            "source_type": name(64),
            "source_id": name(1024),
            "content_type": MayBeAbsent(name(64, required=False), ""),
            "title": MayBeAbsent(text(4 * _KIB), ""),
            "summary": _WORDS,
            "content": MayBeAbsent(text(4 * _KIB * _KIB), ""),
            "author": MayBeAbsent(text(_KIB), ""),
            "metadata": _OBJECT,
            "source_created_at": moment,
            "content_hash": digest,
            "ingested_hash": MayBeAbsent(optional(digest)),
            "ingested_heading": _WORDS,
            "job_id": _UID_OR_NONE,
            "created_at": moment,
            "updated_at": moment,
            "expires_at": _MOMENT_OR_NONE,
        }
    ),
    "document_chunks": ImportedTable(
        {
            "document_id": uid,
            "chunk_id": uid,
            "position": _COUNT,
            "content": text(64 * _KIB, required=True),
        },
        "lexical_no lexical_length embedding_state",
    ),
    "entities": ImportedTable(
        {
            "entity_id": uid,
            "name": _ID,
            "name_key": text(4 * _KIB),
            "type": one_of(*ENTITY_TYPE.values()),
            "aliases": MayBeAbsent(several(name(256), 1_000), []),
            "mention_count": _COUNT,
            "metadata": _OBJECT,
            "created_at": moment,
            "updated_at": moment,
        },
        "called",
    ),
    "memories": ImportedTable(
        {
            **_MEMORY,
            "source": one_of(*MEMORY_SOURCE.values()),
            "conversation_id": MayBeAbsent(optional(name(256))),
            "said_at": moment,
            "created_at": moment,
            "updated_at": moment,
            "challenges": _UIDS,
            "questions": _LABELS,
            "last_confirmed_at": _MOMENT_OR_NONE,
        },
        "lexical_no lexical_length embedding_state text_version",
        also=check_ending,
    ),
    "memory_versions": ImportedTable(
        {**_MEMORY, "said_at": _MOMENT_OR_NONE, "known_from": moment, "known_to": moment},
        "sealed_version",
        also=check_ending,
    ),
    "memory_sources": ImportedTable(
        {
            "memory_id": uid,
            "conversation_id": _ID,
            "message_id": _ID,
            "quote": MayBeAbsent(optional(text(64 * _KIB))),
            "joined_from": _UID_OR_NONE,
        },
        "source_key",
    ),
    "memory_access": ImportedTable(
        {"memory_id": uid, "access_count": whole(0, 2**53), "last_accessed_at": moment}
    ),
    "entity_mentions": ImportedTable({"entity_id": uid, "memory_id": uid}),
    "document_mentions": ImportedTable(
        {"entity_id": uid, "document_id": uid, "names": MayBeAbsent(several(text(_KIB), 1_000), [])}
    ),
    "preferences": ImportedTable(
        {
            "type": name(64),
            "key": name(64),
            "value": free(64 * _KIB, None),
            "confidence": share,
            "observations": _POSITIVE,
            "updated_at": moment,
        }
    ),
    "feedback": ImportedTable(
        {
            "feedback_id": uid,
            "conversation_id": _ID,
            "message_id": _ID,
            "rating": MayBeAbsent(optional(whole(1, 5))),
            "original": MayBeAbsent(optional(text(64 * _KIB))),
            "edited": MayBeAbsent(optional(text(64 * _KIB))),
            "memory_ids": _UIDS,
            "created_at": moment,
        }
    ),
    "history": ImportedTable(
        {
            "event_id": uid,
            "recorded_at": moment,
            "subject": one_of("memory", "profile"),
            "memory_id": _UID_OR_NONE,
            "action": one_of(
                *"created updated merged contradicted superseded achieved archived".split(),
                *"quarantined forgotten restored approved rejected rolled_back expired".split(),
            ),
            "version": _COUNT,
            "actor": text(2 * _KIB, required=True),
            "reason": _WORDS,
            "job_id": _UID_OR_NONE,
            "before": _LARGE_OBJECT_OR_NONE,
            "after": _LARGE_OBJECT_OR_NONE,
            "related_memory_id": _UID_OR_NONE,
        }
    ),
    "statements": ImportedTable(
        {
            "statement_id": uid,
            "subject": one_of(*dict.fromkeys(subject for subject, _ in STATEMENTS)),
            "memory_id": _UID_OR_NONE,
            "conversation_id": MayBeAbsent(optional(name(256))),
            "document_id": _UID_OR_NONE,
            "job_id": _UID_OR_NONE,
            "action": one_of(*dict.fromkeys(action for _, action in STATEMENTS)),
            "version": _COUNT,
            "made_version": _IS_TRUE,
            "origin": _ORIGIN,
            "said_at": moment,
            "said": _LARGE_OBJECT,
            "recorded_at": moment,
            "taken_back_at": _MOMENT_OR_NONE,
        },
        also=check_said,
    ),
    "consolidation_groups": ImportedTable(
        {
            "tag": text(_KIB, required=True),
            "fingerprint": digest,
            "members": _COUNT,
            "job_id": _UID_OR_NONE,
            "examined_at": moment,
            "answered": MayBeAbsent(several(digest, 1_000), []),
        }
    ),
    "session_contexts": ImportedTable(
        {"session_id": _ID, "context": _OBJECT, "updated_at": moment, "expires_at": moment}
    ),
    "recent_items": ImportedTable(
        {"items": CONTEXT_ITEMS, "updated_at": moment, "expires_at": moment}
    ),
    "pending_actions": ImportedTable(
        {
            "action_id": _ID,
            "session_id": _ID,
            "type": name(64),
            "params": _OBJECT,
            "description": MayBeAbsent(text(16 * _KIB), ""),
            "state": one_of("pending_confirmation", "confirmed", "completed", "rejected"),
            "result": MayBeAbsent(optional(free(128 * _KIB))),
            "created_at": moment,
            "updated_at": moment,
            "expires_at": moment,
        }
    ),
}
"""What is imported, by table."""

LEFT_OUT = frozenset(
    # The log of an installation, and credentials for it.
    "api_keys audit_events audit_read_counts erased_users idempotency_keys jobs memory_changes "
    "unusable_replies usage_ledger webhook_deliveries webhooks "
    # Computed anew.
    "document_chunk_embeddings memory_embeddings memory_source_embeddings message_embeddings "
    "passage_postings passage_statistics postings sealed_embeddings summary_embeddings".split()
)
"""Tables of an export that are never imported."""
