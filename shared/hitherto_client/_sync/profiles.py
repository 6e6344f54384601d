# Generated from ../_async/profiles.py by tools/unasync.py. Do not edit.
"""Profiles, and a user's documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from hitherto_client._sync.calling import Calling, Pages, pages, rpc
from hitherto_client.inputs import DocumentInput
from hitherto_client.results.conversations import Document, Ingested
from hitherto_client.results.memories import HistoryEvent, Profile


class Profiles(Calling):
    """What is known about a user as a person, and the documents that were supplied."""

    @rpc("GetProfile", "profile")
    def get_profile(self, user: str, *, timeout: float | None = None) -> Profile | None:
        """The user's profile; None if there is none, or memory is switched off."""

    @pages("ListProfiles")
    def profiles(
        self,
        *,
        department: str = "",
        include_without_profile: bool = False,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> Pages[Profile]:
        """The profiles that the credential may see, fetched page by page.

        With `include_without_profile`, those of the others of whom something is stored, too, with
        version 0.
        """

    @pages("GetProfileHistory")
    def profile_history(
        self, user: str, *, page_size: int = 200, timeout: float | None = None
    ) -> Pages[HistoryEvent]:
        """Every change of the user's profile, newest first, fetched page by page."""

    @rpc("UpdateProfile", "profile", changes="profile", by_key=True)
    def update_profile(
        self,
        user: str,
        *,
        summary: str | None = None,
        department: str | None = None,
        current_projects: Iterable[str] | None = None,
        preferences: Mapping[str, Any] | None = None,
        frequent_intents: Iterable[str] | None = None,
        access_level: str | None = None,
        facts: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        clear: Iterable[str] = (),
        version: int = 0,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Profile:
        """Change or create a profile by hand. What is not given stays as it is.

        Lists are given whole. Preferences, facts such as `{"personal": {"location": "Porto"}}` and
        metadata are set by key; other keys stay. `clear` names what to remove, such as `summary` or
        `facts.personal.location`. With `version`, the change is made only if that is the profile's
        version.

        Raises:
            HithertoCallError: A path is unknown (`INVALID_FIELD`), the profile has another version
                (`VERSION_MISMATCH`), or a right is missing (`CAPABILITY_MISSING`).
        """

    @rpc("IngestDocuments")
    def ingest_documents(
        self,
        user: str,
        documents: Iterable[DocumentInput],
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> Ingested:
        """Supply 1 to 100 documents; known ones are replaced, unchanged ones cost nothing."""

    @rpc("IngestDocuments", "replaced_count", refresh_only=True)
    def refresh_documents(
        self,
        user: str,
        documents: Iterable[DocumentInput],
        *,
        timeout: float | None = None,
    ) -> int:
        """Postpone the expiry of known documents to their `expires_at`; returns how many moved.

        Nothing else changes. Documents that are unknown, have expired, or have no expiry or a later
        one stay as they are.
        """

    @pages("ListDocuments")
    def documents(
        self,
        user: str,
        *,
        source_types: Iterable[str] = (),
        content_types: Iterable[str] = (),
        entity: str = "",
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        page_size: int = 200,
        timeout: float | None = None,
    ) -> Pages[Document]:
        """A user's documents without their content, fetched page by page."""

    @rpc("GetDocument", "document")
    def get_document(
        self, user: str, document_id: str, *, timeout: float | None = None
    ) -> Document | None:
        """A document with its content; None if there is none."""

    @rpc("DeleteDocument", "counts")
    def delete_document(
        self,
        user: str,
        document_id: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> dict[str, int]:
        """Remove a document for good; what was learnt from it stays.

        Returns:
            The number of removed rows, by kind.
        """
