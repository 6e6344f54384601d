"""The RPCs of MemoryService on profiles and feedback: UpdateProfile and RecordFeedback."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto.v1 import memory_service_pb2 as pb
from hitherto.v1 import profile_pb2
from hitherto_extraction.curation.feedback import FeedbackEffects, record_feedback
from hitherto_extraction.curation.profiles import FIELDS, RESERVED, update_profile
from hitherto_extraction.curation.saving import Saving
from hitherto_extraction.handlers.answering import Answering, checks_of, read_update_mask
from hitherto_extraction.pipeline.profile import LISTS, STRUCTS
from hitherto_extraction.storage import preferences, profiles
from hitherto_extraction.storage.preferences import AnswerFeedback
from hitherto_shared.auth.principal import PROFILES_MANAGE
from hitherto_shared.convert import preference_message, profile_message
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Preference, Profile
from hitherto_shared.rpc.call import Context
from hitherto_shared.validation import Checks

MAX_SUMMARY_BYTES = 16 * 1024
MAX_ITEMS = 100
MAX_ITEM = 500
MAX_DEPARTMENT = 256
MAX_ACCESS_LEVEL = 64
MAX_EDIT_BYTES = 64 * 1024


class ProfileCalls:
    """Implements the two RPCs."""

    answering: Answering
    saving: Saving

    async def UpdateProfile(
        self, request: pb.UpdateProfileRequest, context: Context
    ) -> pb.UpdateProfileResponse:
        """Change a profile by hand."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        values = _values(checks, request.profile)
        paths = read_update_mask(
            checks,
            request,
            request.profile,
            FIELDS,
            deep=STRUCTS,
            example="facts.personal.location",
            required=True,
        )
        if request.version < 0:
            checks.add("version", "must not be negative; leave it out for no check")
        call = self.answering.admit(checks, user_id, sent)
        principal = call.principal
        if any(path[0] in RESERVED for path in paths):
            principal.check_capability(PROFILES_MANAGE)
        if ("department",) in paths:
            principal.check_department("profile.department", values.get("department", ""))

        async def change(user: UserRows) -> Profile:
            return await update_profile(
                user,
                values,
                paths,
                version=request.version,
                actor=principal.subject,
                permit=lambda held: principal.check_reaches(user_id, held.department),
            )

        async def again(user: UserRows, _ids: Sequence[str]) -> Profile:
            found, _ = await profiles.read_profile(user)
            return found

        made, token = await self.answering.change_user(call, change, again, context)
        return pb.UpdateProfileResponse(profile=profile_message(made), consistency_token=token)

    async def RecordFeedback(
        self, request: pb.RecordFeedbackRequest, context: Context
    ) -> pb.RecordFeedbackResponse:
        """Apply a rating or an edit."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        feedback = _feedback(checks, request)
        call = self.answering.admit(checks, user_id, sent)

        async def change(user: UserRows) -> FeedbackEffects:
            return await record_feedback(
                user,
                feedback,
                actor=call.principal.subject,
                memory_enabled=self.saving.memory_enabled,
            )

        async def again(user: UserRows, ids: Sequence[str]) -> FeedbackEffects:
            known = await preferences.read_preferences(user)
            moved: list[Preference] = []
            memory_ids: list[UUID] = []
            for text in ids:
                kind, *name = json.loads(text)
                if kind == "memory":
                    memory_ids.append(UUID(name[0]))
                elif (name[0], name[1]) in known:
                    moved.append(known[name[0], name[1]])
            return FeedbackEffects(moved, memory_ids)

        made, token = await self.answering.change_user(
            call,
            change,
            again,
            context,
            ids=_names,
            touched=lambda moved: [str(each) for each in moved.memory_ids],
        )
        return pb.RecordFeedbackResponse(
            preferences=[preference_message(found) for found in made.preferences],
            memory_ids=[str(memory_id) for memory_id in made.memory_ids],
            consistency_token=token,
        )


def _feedback(checks: Checks, request: pb.RecordFeedbackRequest) -> AnswerFeedback:
    feedback = AnswerFeedback(
        checks.identifier("conversation_id", request.conversation_id),
        checks.identifier("message_id", request.message_id),
    )
    match request.WhichOneof("feedback"):
        case "rating":
            if not 1 <= request.rating <= 5:
                checks.add("rating", "must be a number from 1 to 5")
            return replace(feedback, rating=request.rating)
        case "edit":
            edit = request.edit
            return replace(
                feedback,
                original=checks.text(
                    "edit.original", edit.original, max_bytes=MAX_EDIT_BYTES, required=True
                ),
                edited=checks.text("edit.edited", edit.edited, max_bytes=MAX_EDIT_BYTES),
            )
        case _:
            checks.add("feedback", "is required: set rating or edit")
            return feedback


def _names(moved: FeedbackEffects) -> list[str]:
    """The effects of feedback, by name: our own keys and ids, no contents."""
    return [
        *(json.dumps(["preference", p.type, p.key]) for p in moved.preferences),
        *(json.dumps(["memory", str(memory_id)]) for memory_id in moved.memory_ids),
    ]


def _values(checks: Checks, profile: profile_pb2.Profile) -> dict[str, Any]:
    """The new values by field, without absent ones."""
    found: dict[str, Any] = {}
    if profile.summary:
        found["summary"] = checks.text(
            "profile.summary", profile.summary, max_bytes=MAX_SUMMARY_BYTES
        )
    if profile.department:
        found["department"] = _short(checks, "department", profile.department, MAX_DEPARTMENT)
    if profile.access_level:
        found["access_level"] = _short(
            checks, "access_level", profile.access_level, MAX_ACCESS_LEVEL
        )
    for name in LISTS:
        if items := getattr(profile, name):
            # As what is learnt is: without blanks around it, and once.
            given = [item.strip() or item for item in items]
            listed = checks.texts(f"profile.{name}", given, maximum=MAX_ITEMS, max_chars=MAX_ITEM)
            found[name] = tuple(dict.fromkeys(item for item in listed if item.strip()))
    for name in STRUCTS:
        if profile.HasField(name):  # type: ignore[arg-type]
            found[name] = checks.struct(f"profile.{name}", getattr(profile, name))
    return found


def _short(checks: Checks, name: str, value: str, most: int) -> str:
    checks.texts(f"profile.{name}", [value], maximum=1, max_chars=most)
    return checks.text(f"profile.{name}", value, max_bytes=4 * most)
