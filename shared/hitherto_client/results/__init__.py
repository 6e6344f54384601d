"""What calls return: frozen dataclasses, with the field names of the contract (docs/api.md).

Times are aware datetimes in UTC, free JSON is a dict, lists are tuples.
"""

from hitherto_client.results.conversations import (
    Added,
    AddedAction,
    ContextItem,
    Conversation,
    ConversationSummary,
    Document,
    DocumentChunk,
    Ingested,
    Message,
    PendingAction,
    Session,
    UpdatedSession,
)
from hitherto_client.results.jobs import (
    ImportedMemories,
    ImportedTranscripts,
    ItemError,
    Job,
    JobProgress,
    JobResult,
    Usage,
)
from hitherto_client.results.memories import (
    Entity,
    Feedback,
    HistoryEvent,
    Memory,
    MemorySourceRef,
    Preference,
    Profile,
    SavedMemory,
)
from hitherto_client.results.privacy import (
    EraseReceipt,
    ExportManifest,
    UserSettings,
)
from hitherto_client.results.search import (
    Context,
    EnhancedPrompt,
    LegReport,
    Preview,
    SearchResult,
    SearchResults,
    Suggestions,
)

__all__ = [
    "Added",
    "AddedAction",
    "Context",
    "ContextItem",
    "Conversation",
    "ConversationSummary",
    "Document",
    "DocumentChunk",
    "EnhancedPrompt",
    "Entity",
    "EraseReceipt",
    "ExportManifest",
    "Feedback",
    "HistoryEvent",
    "ImportedMemories",
    "ImportedTranscripts",
    "Ingested",
    "ItemError",
    "Job",
    "JobProgress",
    "JobResult",
    "LegReport",
    "Memory",
    "MemorySourceRef",
    "Message",
    "PendingAction",
    "Preference",
    "Preview",
    "Profile",
    "SavedMemory",
    "SearchResult",
    "SearchResults",
    "Session",
    "Suggestions",
    "UpdatedSession",
    "Usage",
    "UserSettings",
]
