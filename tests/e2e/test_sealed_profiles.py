"""Profiles of users who encrypt (H3): sealed, and changed, undone and cleared like any other."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from hitherto.v1 import memory_service_pb2 as pb
from hitherto_shared.encryption.rows import PROFILE
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import plain
from tests.e2e.learning import learn, replies, rows, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose, clear
from tests.e2e.sealing import ENCRYPTING, change_profile, key_files, key_of
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel

_LEARNT = "summary, current_projects, preferences, frequent_intents, facts, metadata, said_at"
_HISTORY = "SELECT action, version, reason FROM history WHERE subject = 'profile' ORDER BY version"
HEALTH = {"health": {"allergy": "pollen"}}


def emptied(conninfo: str) -> bool:
    """Whether nothing that was learnt stands in clear in the one profile and its versions."""
    (found,) = rows(conninfo, f"SELECT {_LEARNT}, sealed FROM profiles")
    versions = rows(conninfo, "SELECT profile, sealed FROM profile_versions")
    return (
        found[:-1] == ("", [], {}, [], {}, {}, {})
        and found[-1] is not None
        and all(profile == {} and sealed is not None for profile, sealed in versions)
    )


SERVICE_SETTINGS = ENCRYPTING


@pytest.fixture
def encrypting(modelled: Services) -> Services:
    return modelled


class TestByHand:
    async def test_h3_what_is_written_is_sealed_and_told_as_before(
        self, encrypting: Services
    ) -> None:
        await choose(encrypting, encrypt_sensitive=True)
        made = await change_profile(
            encrypting, summary="Grows bonsai.", department="sales", facts=HEALTH
        )
        assert (made.summary, made.department, made.version) == ("Grows bonsai.", "sales", 1)
        # A key of free JSON is the user's word as much as its value: fields are named, no more.
        ((_, _, fields),) = rows(encrypting.conninfo, _HISTORY)
        assert set(fields.split(", ")) == {"summary", "department", "facts"}
        # The same call again is answered alike.
        request = pb.UpdateProfileRequest(user_id="ana", idempotency_key="k")
        request.profile.current_projects.append("a garden")
        request.update_mask.paths.append("current_projects")
        changed = (await encrypting.memory.UpdateProfile(request)).profile
        assert (await encrypting.memory.UpdateProfile(request)).profile == changed
        assert (changed.summary, list(changed.current_projects)) == ("Grows bonsai.", ["a garden"])
        assert plain(changed.facts) == HEALTH
        assert emptied(encrypting.conninfo)
        # The walls stand on what stays clear.
        assert rows(encrypting.conninfo, "SELECT department FROM profiles") == [("sales",)]
        key = await key_of(encrypting)
        (first, second) = rows(
            encrypting.conninfo, "SELECT sealed FROM profile_versions ORDER BY version"
        )
        assert key.open(first[0], PROFILE.place(1))["current_projects"] == []
        assert key.open(second[0], PROFILE.place(2))["current_projects"] == ["a garden"]
        # Cleared, it is sealed too.
        assert (await clear(encrypting, profile=True))["profiles"] == 1
        assert (await change_profile(encrypting, summary="Grows bonsai.")).facts == Struct()
        assert emptied(encrypting.conninfo)
        # Turned off, it stays so until the next change, and is read all the same.
        await choose(encrypting, encrypt_sensitive=False)
        assert emptied(encrypting.conninfo)
        changed = await change_profile(encrypting, current_projects=["a garden"])
        assert changed.summary == "Grows bonsai."
        assert rows(encrypting.conninfo, "SELECT summary, sealed FROM profiles") == [
            ("Grows bonsai.", None)
        ]

    async def test_h3_without_the_key_nothing_is_written_in_clear(
        self, start_services: StartServices
    ) -> None:
        async with start_services(**ENCRYPTING) as services:
            await choose(services, encrypt_sensitive=True)
            await change_profile(services, summary="Grows bonsai.")
        async with start_services() as services:
            refusal = await refusal_of(change_profile(services, summary="Grows roses."))
            assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
            assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
            # Others write as ever.
            assert (await change_profile(services, user="bo", summary="Bo.")).version == 1
        for file in key_files(services.folder):
            file.unlink()
        async with start_services(**ENCRYPTING) as services:
            refusal = await refusal_of(change_profile(services, summary="Grows roses."))
            assert "HITHERTO_USER_KEYS_DIR" in refusal.message
        assert rows(
            services.conninfo,
            "SELECT version FROM profile_versions WHERE user_id = 'ana'",
        ) == [(1,)]


class TestLearnt:
    @pytest.fixture
    async def taught(self, encrypting: Services) -> Services:
        encrypting.model.script = replies(
            {
                "good words": {
                    "profile": {"facts": {"personal": {"location": "Lisbon"}}},
                    "new_memories": [],
                },
                "bad words": {
                    "profile": {
                        "facts": {"personal": {"location": "Atlantis", "role": "king"}},
                        "current_projects": ["gold"],
                    },
                    "new_memories": [],
                },
            }
        )
        await choose(encrypting, encrypt_sensitive=True)
        await learn(
            encrypting,
            talk("good words: I live in Lisbon", conversation="good"),
            talk("bad words: I live in Atlantis, king of gold", conversation="bad"),
        )
        return encrypting

    async def test_h3_what_a_conversation_teaches_is_sealed_and_merged(
        self, taught: Services, model: ScriptedModel, tenant_conninfo: str
    ) -> None:
        assert emptied(tenant_conninfo)
        assert len(rows(tenant_conninfo, "SELECT 1 FROM profile_versions")) == 2
        assert {reason for *_, reason in rows(tenant_conninfo, _HISTORY)} == {
            "facts",
            "current_projects, facts",
        }
        # The model was shown what was known.
        asked = str(model.chat_requests[-1].body)
        assert "Lisbon" in asked
        seen = await change_profile(taught, summary="A gardener.")
        assert plain(seen.facts) == {"personal": {"location": "Atlantis", "role": "king"}}

    async def test_h3_a_source_is_taken_back(self, taught: Services, tenant_conninfo: str) -> None:
        """History keeps no contents: the sealed versions tell what to undo. Readers see no seal."""
        for dry_run in (True, False):
            told = await ask(taught, "RollbackSource", conversation_id="bad", dry_run=dry_run)
            assert told.counts["profile_fields"] == 3
            now = (await ask(taught, "GetContext")).profile
            if dry_run:
                assert plain(now.facts)["personal"]["role"] == "king"
            else:
                assert plain(now.facts) == {"personal": {"location": "Lisbon"}}
                assert list(now.current_projects) == []
            assert emptied(tenant_conninfo)
