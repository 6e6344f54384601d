"""Runs tool calls of a language model for one user."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

import grpc
from google.protobuf import message_factory

from hitherto.v1 import retrieval_service_pb2 as retrieval
from hitherto.v1 import session_service_pb2 as sessions
from hitherto_client._sync.client import Hitherto
from hitherto_client.days import days_in, zone_or_utc
from hitherto_client.declared import RPCS
from hitherto_client.errors import HithertoCallError
from hitherto_client.tools import results
from hitherto_client.tools.arguments import ToolArgumentError, check, moment, read_arguments
from hitherto_client.tools.definitions import (
    ALIASES,
    DEFAULT_RESULTS,
    EDITING,
    SCOPES,
    SOURCES,
    TOOLS,
)
from hitherto_client.wire import build

_ZONE_SECONDS = 600.0
"""After which the user's time zone is asked for again."""
_TOOLS = {tool.name: tool for tool in (*TOOLS, *EDITING)}


class UnboundCredentialError(PermissionError):
    """The credential may act for any user, which is more than the tools of one user need."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a tool call.

    Attributes:
        value: What the model is given; for an error, `error` says what was wrong.
        is_error: True if nothing was done.
    """

    value: dict[str, Any]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The value as JSON text, which model APIs take as the content of a tool message."""
        return json.dumps(self.value, ensure_ascii=False)


class Toolbox:
    """Runs the tools for one user, with a credential that is bound to that user.

    A model that was misled can ask for anything. It must not reach other users, so that the
    services refuse what it should not see: the toolbox checks the credential at its first call and
    refuses one that may act for any user. Thread-safe.

    Example:
        toolbox = Toolbox(Hitherto(api_key=key_of_ana), "ana")
        result = toolbox.call(tool_call.function.name, tool_call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": tool_call.id, "content": result.text})
    """

    def __init__(
        self,
        client: Hitherto,
        user_id: str,
        *,
        session_id: str = "",
        conversation_id: str = "",
        allow_unbound: bool = False,
    ) -> None:
        """Prepare the tools; nothing is called yet.

        Args:
            client: Its credential should be made by `hitherto keys create --user`, or be a token
                of that person. Services that run without authentication need none.
            user_id: On whose behalf the tools act.
            session_id: The session that holds prepared actions. Unset: one is created.
            conversation_id: The conversation that saved memories come from. Unset: none.
            allow_unbound: Accept a credential that may act for any user.
        """
        self._client = client.connection
        self._user_id = user_id
        self._conversation_id = conversation_id
        # Without a credential the services ask for none: there is nothing to bind.
        self._checked = allow_unbound or not client.has_credential
        self._token = ""
        self._zone: tuple[float, tzinfo] = (-math.inf, UTC)
        self.session_id = session_id

    def call(self, name: str, arguments: str | Mapping[str, Any] | None = None) -> ToolResult:
        """Run one tool call.

        `arguments` are as the model gave them: JSON text or an object.

        Returns:
            The result. Wrong arguments and failed calls are results as well, with `is_error`, so
            that the model can correct itself or go on without.

        Raises:
            UnboundCredentialError: The credential may act for any user.
        """
        tool = _TOOLS.get(ALIASES.get(name, name))
        if tool is None:
            return _failed(f"there is no tool {name!r}; the tools are: {', '.join(_TOOLS)}")
        try:
            given = read_arguments(arguments)
            check(tool.parameters, given)
            self._require_bound()
            stated = {key: value for key, value in given.items() if value is not None}
            # Each tool has a method of its name below.
            with days_in(self._known_zone()):
                return ToolResult(results.visible(getattr(self, f"_{tool.name}")(stated)))
        except ToolArgumentError as error:
            return _failed(str(error))
        except HithertoCallError as error:
            return ToolResult(
                {"error": str(error), "reason": error.reason or error.code.name}, is_error=True
            )

    def prompt_block(self, question: str = "") -> str:
        """What is known about the user, for a system prompt; empty if nothing is.

        Args:
            question: What the conversation is about. Unset: what matters most in general.

        Raises:
            UnboundCredentialError: The credential may act for any user.
            HithertoCallError: The services did not answer.
        """
        self._require_bound()
        block: str = self._ask("GetContext", query=question).prompt_block
        return block

    def _require_bound(self) -> None:
        """Find out once whether the services would refuse another user.

        Raises:
            UnboundCredentialError: They would not.
            HithertoCallError: They could not be asked.
        """
        if self._checked:
            return
        other = f"nobody-{uuid.uuid4()}"
        try:
            self._client.retrieval.FindEntities(retrieval.FindEntitiesRequest(user_id=other))
        except HithertoCallError as error:
            if error.code != grpc.StatusCode.PERMISSION_DENIED or error.reason == "SCOPE_MISSING":
                raise
            self._checked = True
            return
        raise UnboundCredentialError(
            "this credential may act for every user, so a misled model could reach everybody: make"
            f" one that is bound to {self._user_id!r} with `hitherto keys create --user`. Services"
            " that run without authentication bind no credential: send none, or start them with"
            " HITHERTO_AUTH=api-key"
        )

    def _known_zone(self) -> tzinfo:
        """The user's time zone, asked for now and then; UTC while it cannot be read."""
        asked, zone = self._zone
        if time.monotonic() - asked > _ZONE_SECONDS:
            zone = zone_or_utc(self._client, self._user_id)
            self._zone = (time.monotonic(), zone)
        return zone

    def _ask(self, rpc: str, **fields: Any) -> Any:
        """The reply of an RPC about the user, which sees what the tools have written before."""
        stub, method = RPCS[rpc]
        kind = message_factory.GetMessageClass(method.input_type)
        if "consistency_token" in method.input_type.fields_by_name:
            fields["consistency_token"] = self._token
        request: Any = build(kind, user_id=self._user_id, **fields)
        call = getattr(getattr(self._client, stub), rpc)
        try:
            reply: Any = call(request)
        except HithertoCallError as error:
            if not self._token or error.reason != "INVALID_CONSISTENCY_TOKEN":
                raise
            # It was made with a secret that the services no longer have.
            request.consistency_token = self._token = ""
            reply = call(request)
        if "consistency_token" in method.output_type.fields_by_name:
            self._token = reply.consistency_token
        return reply

    def _search(self, arguments: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        limit = arguments.get("limit", DEFAULT_RESULTS)
        found = self._ask("SearchMemories", query=arguments["query"], limit=limit, **fields)
        reply: dict[str, Any] = {
            "found": len(found.results),
            "items": [results.item(one) for one in found.results],
        }
        if found.entities:
            reply["entities"] = [results.shown(one) for one in found.entities]
        return reply | _why(found.reason)

    def _save_memory(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        saved = self._ask(
            "SaveMemory",
            content=arguments["content"],
            tags=arguments.get("tags", ()),
            importance=arguments.get("importance"),
            conversation_id=self._conversation_id,
            type=arguments.get("type"),
            source="explicit" if arguments.get("stated_by_user", True) else "inference",
        )
        return {"saved": results.memory(saved.memory), "already_known": saved.deduplicated}

    def _search_memory(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._search(
            arguments,
            scopes=SCOPES[arguments.get("scope", "memories")],
            types=arguments.get("types"),
            **_filters(arguments),
        )

    def _list_memories(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        size = arguments.get("limit", DEFAULT_RESULTS)
        found = self._ask("ListMemories", types=arguments.get("types"), page_size=size)
        listed = [results.memory(one) for one in found.memories]
        return {"known": found.total_size, "memories": listed} | _why(found.reason)

    def _correct_memory(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        corrected = self._ask(
            "UpdateMemory",
            memory_id=arguments["memory_id"],
            memory={"content": arguments["content"]},
            update_mask=["content"],
            carry_along=arguments.get("carry_along"),
        )
        return {"corrected": results.memory(corrected.memory)} | results.still_said(corrected)

    def _forget_memory(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        forgotten = self._ask("ForgetMemory", **arguments)
        return {"forgotten": forgotten.memory.id} | results.still_said(forgotten)

    def _get_profile(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = self._ask("GetProfile")
        except HithertoCallError as error:
            if error.reason != "PROFILE_NOT_FOUND":
                raise
            return {"profile": {}} | _why(error.reason)
        return {"profile": results.shown(found.profile)} | _why(found.reason)

    def _retrieve_context(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._search(
            arguments, scopes=arguments.get("sources") or SOURCES, **_filters(arguments)
        )

    def _find_entity(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = self._ask("FindEntities", **{"limit": DEFAULT_RESULTS, **arguments})
        return {"entities": [results.shown(one) for one in found.entities]} | _why(found.reason)

    def _get_recent_conversations(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = self._ask(
            "GetRecentConversations",
            limit=arguments.get("limit"),
            include_messages=arguments.get("include_context"),
        )
        told = [results.conversation(one) for one in found.conversations]
        return {"conversations": told} | _why(found.reason)

    def _query_user_knowledge(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._search(arguments, scopes=["messages", "documents"])

    def _prepare_action(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        params = arguments["params"]
        try:
            build(sessions.AddPendingActionRequest, params=params)
        except ValueError:
            raise ToolArgumentError("params must be a JSON object") from None
        made = self._ask(
            "AddPendingAction",
            session_id=self.session_id,
            type=arguments["action_type"],
            params=params,
            description=arguments["description"],
        )
        self.session_id = made.session_id
        return {
            "pending_action": results.shown(made.pending_action),
            "next": "Ask the user to confirm it. It is not executed before that.",
        }


def _filters(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of a search: by time, and by what an item mentions."""
    times = arguments.get("time_filter", {})
    bounds = {
        f"created_{edge}": moment(times[edge], f"time_filter.{edge}")
        for edge in ("after", "before")
        if times.get(edge)
    }
    if len(bounds) == 2 and bounds["created_after"] >= bounds["created_before"]:
        raise ToolArgumentError(
            "time_filter.before must be later than time_filter.after, and is not included: for"
            " one day, give the next one as before"
        )
    return {"entity": arguments.get("entity_filter", ""), **bounds}


def _why(reason: str) -> dict[str, Any]:
    return {"reason": reason} if reason else {}


def _failed(why: str) -> ToolResult:
    return ToolResult({"error": why, "reason": "INVALID_ARGUMENTS"}, is_error=True)
