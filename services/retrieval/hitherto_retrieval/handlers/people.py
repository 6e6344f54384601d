"""The RPCs about profiles and entities."""

from __future__ import annotations

import asyncio

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.incoming import MAX_LIMIT
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.opening import whole_of_many
from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.statement import ask_at
from hitherto_shared.convert import ENTITY_TYPE, entity_message, profile_message
from hitherto_shared.errors import NotFound
from hitherto_shared.models import Scope
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call, seconds_left
from hitherto_shared.validation import Checks


class PeopleCalls(ReadCalls):
    """Implements them."""

    async def GetProfile(
        self, request: pb.GetProfileRequest, context: CallContext
    ) -> pb.GetProfileResponse:
        """A user's profile."""
        checks = UserChecks(request)
        reading = await self._begin(checks, request, context)
        if reading.disabled:
            return pb.GetProfileResponse(reason=reading.reason)
        found = await reading.answer(people.profile(reading.scope))
        if found is None or reading.empty:
            raise NotFound(
                "this user has no profile yet",
                reason="PROFILE_NOT_FOUND",
                metadata={"user_id": checks.user_id},
            )
        return pb.GetProfileResponse(profile=profile_message(await reading.opener.one(found)))

    async def ListProfiles(
        self, request: pb.ListProfilesRequest, context: CallContext
    ) -> pb.ListProfilesResponse:
        """The profiles that the credential may read, by user id."""
        checks = Checks()
        department = checks.identifier("department", request.department, required=False)
        principal = current_call().principal
        page = self._pages.open(checks, principal.tenant_id, request)
        checks.done()
        seconds = seconds_left(context)
        deadline = asyncio.get_running_loop().time() + seconds
        database = self._readers.choose(request.consistency_token, principal.tenant_id)
        profiles = people.profile_page(
            principal.tenant_id,
            listed=principal.names,
            departments=principal.departments,
            department=department or None,
            memory_enabled=self._memory_enabled,
            with_others=request.include_without_profile,
            **page.bounds,
            with_sealed=self._keys.configured,
        )
        await ask_at(database, deadline, profiles)
        found, following, total = profiles.answer
        await self._audit.note((profile.user_id for profile in found), timeout=seconds)
        theirs = [(Scope(principal.tenant_id, each.user_id), each) for each in found]
        found = await whole_of_many(self._keys, theirs, deadline=deadline)
        return pb.ListProfilesResponse(
            profiles=[profile_message(profile) for profile in found],
            next_page_token=page.seal(following),
            total_size=total,
        )

    async def FindEntities(
        self, request: pb.FindEntitiesRequest, context: CallContext
    ) -> pb.FindEntitiesResponse:
        """Entities by part of their name, the most mentioned first."""
        checks = UserChecks(request)
        name = checks.identifier("name", request.name, required=False)
        kind = checks.one_of("type", request.type, ENTITY_TYPE)
        limit = checks.limit("limit", request.limit, default=10, maximum=MAX_LIMIT)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.FindEntitiesResponse(reason=reading.reason)
        found = await reading.answer(
            people.find_entities(reading.scope, name=name, type=kind, limit=limit)
        )
        return pb.FindEntitiesResponse(entities=[entity_message(entity) for entity in found])
