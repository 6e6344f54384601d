"""PrivacyService: users' control of their own data."""

from __future__ import annotations

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto.v1 import privacy_service_pb2_grpc
from hitherto_extraction.curation.clearing import Clearing
from hitherto_extraction.curation.erasing import Erasing
from hitherto_extraction.curation.exporting import Exporting
from hitherto_extraction.curation.user_settings import UserSettings
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.audit import AuditCalls
from hitherto_extraction.handlers.erasure import LeavingCalls
from hitherto_extraction.handlers.restoring import RestoringCalls
from hitherto_extraction.handlers.user_control import UserControlCalls
from hitherto_extraction.pipeline.message_removal import delete_conversation
from hitherto_extraction.restoring.importing import Importing
from hitherto_shared.database.pool import Database
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context
from hitherto_shared.validation import Checks


class PrivacyHandlers(
    AuditCalls,
    UserControlCalls,
    LeavingCalls,
    RestoringCalls,
    privacy_service_pb2_grpc.PrivacyServiceServicer,
):
    """Implements PrivacyService.

    `removal` is the database with the role that may delete, `installation` the settings of users
    who did not choose.
    """

    def __init__(
        self,
        answering: Answering,
        removal: Database,
        installation: UserSettings,
        clearing: Clearing,
        erasing: Erasing,
        exporting: Exporting,
        importing: Importing,
        pages: PageTokens,
    ) -> None:
        self._answering = answering
        self._pages = pages
        self._installation = installation
        self._clearing = clearing
        self._erasing = erasing
        self._exporting = exporting
        self._importing = importing
        self._removal = removal

    async def DeleteConversation(
        self, request: pb.DeleteConversationRequest, context: Context
    ) -> pb.DeleteConversationResponse:
        """Delete a conversation; memories learnt from it stay."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        conversation_id = checks.identifier("conversation_id", request.conversation_id)
        call = self._answering.admit(checks, user_id, request)
        outcome = await self._answering.remove(
            call,
            lambda connection: delete_conversation(connection, call.scope, conversation_id),
            context,
            touched=conversation_id,
            database=self._removal,
        )
        return pb.DeleteConversationResponse(
            counts=outcome.made, consistency_token=self._answering.token(outcome.position)
        )
