"""Memory for agents of Pydantic AI (extra `pydantic-ai`).

Example:
    memory = HithertoMemory(Hitherto(), user="ana")
    agent = Agent("openai:gpt-5-mini", capabilities=[memory])
    agent.run_sync("I live in Porto.")

`HithertoMemory` tells the model what is known and learns from each run, `HithertoToolset` lets the
model search, save, correct and forget, and `HithertoHistory` keeps the messages of runs. Their
calls to the services run in threads, so that one client serves `run` and `run_sync` alike.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hitherto_client._sync.client import Hitherto
from hitherto_client.inputs import MessageInput
from hitherto_client.integrations import package_of
from hitherto_client.integrations.exchange import ModelExchange, Utterance, batched, without_blocks
from hitherto_client.integrations.kept_items import (
    ItemReader,
    KeptItem,
    as_messages,
    check_kept,
)
from hitherto_client.integrations.recollection import Chat, Recollection
from hitherto_client.tools import MCP_TOOLS, Toolbox
from hitherto_client.words import Role

with package_of("pydantic-ai"):
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextContent,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserContent,
        UserPromptPart,
    )
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

User = str | Callable[[RunContext[AgentDepsT]], str]
"""Whom the agent talks with, or what tells it of a run, such as `lambda run: run.deps.user`."""

_KIND = "pydantic-ai"
_ANY = SchemaValidator(core_schema.any_schema())
_OFFERED = ("search_memory", "save_memory", "correct_memory", "forget_memory")


class HithertoMemory(AbstractCapability[AgentDepsT]):
    """Tells the model what is known about the user, and learns from what is said.

    Each run gets the block of GetContext for its prompt among its instructions. When the run has
    ended, what the user and the model said in it is added to the conversation, once. If memory
    fails, the run goes on without it and a warning is logged; what could not be added is added
    after another run of this object.
    """

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: User[AgentDepsT],
        timeout: float = 2.0,
        max_tokens: int | None = None,
        keep: bool = True,
        tools: bool = False,
    ) -> None:
        """Give an agent a memory.

        Args:
            memory: The client.
            user: Whom the agent talks with; a function of the run for an agent of many users.
            timeout: Seconds that a run waits for memory at most, before it and again after it.
            max_tokens: The budget of the block. Unset: 4,000.
            keep: False: nothing is added, because a history or your own code keeps the messages.
            tools: True: calls of tools, with their arguments, and their results are kept too.
        """
        self._recollection = Recollection(memory, timeout=timeout, max_tokens=max_tokens)
        self._user = user
        self._keep = keep
        self._tools = tools
        self._block: str | None = None

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> HithertoMemory[AgentDepsT]:
        """A copy for one run, which asks once for what is known."""
        run = copy.copy(self)
        run._block = None
        return run

    def get_instructions(self) -> Callable[[RunContext[AgentDepsT]], Any]:
        """What is known."""
        return self._known

    async def _known(self, ctx: RunContext[AgentDepsT]) -> str:
        if self._block is None:
            said = [*_utterances(ctx.messages), Utterance("user", _words(ctx.prompt))]
            chat, question = self._chat(ctx), ModelExchange(said).question
            self._block = await asyncio.to_thread(self._recollection.block, chat, question)
        return self._block

    async def after_run(
        self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Add what was said."""
        if self._keep:
            messages, new = result.all_messages(), result.new_messages()
            begun = len(messages) - len(new)
            begun += next((n for n, m in enumerate(new) if isinstance(m, ModelResponse)), len(new))
            exchange = ModelExchange(_utterances(messages[:begun], tools=self._tools))
            said = exchange.ended(_utterances(messages[begun:], tools=self._tools))
            await asyncio.to_thread(self._recollection.keep, self._chat(ctx), said)
        return result

    def _chat(self, ctx: RunContext[AgentDepsT]) -> Chat:
        return Chat(_user_of(self._user, ctx), ctx.conversation_id or "")


class HithertoToolset(AbstractToolset[AgentDepsT]):
    """Lets the model search the user's memory, save into it, correct and forget.

    The tools are those of `Toolbox`. What fails is the tool's result, so that the model goes on.
    """

    def __init__(
        self,
        memory: Hitherto,
        *,
        user: User[AgentDepsT],
        offered: Sequence[str] = _OFFERED,
        allow_unbound: bool = False,
        id: str | None = "hitherto",
    ) -> None:
        """Offer tools to an agent.

        Args:
            memory: The client, with a credential that is bound to the user.
            user: Whom the agent talks with; a function of the run for an agent of many users.
            offered: The names of the tools, of those that MCP has.
            allow_unbound: Accept a credential that may act for any user (`Toolbox`).
            id: The id of the toolset.

        Raises:
            ValueError: There is no such tool.
        """
        known = {tool.name: tool for tool in MCP_TOOLS}
        unknown = sorted(set(offered).difference(known))
        if unknown:
            raise ValueError(f"no such tools: {', '.join(unknown)}; there are {', '.join(known)}")
        self._memory = memory
        self._user = user
        self._offered = [known[name] for name in offered]
        self._unbound = allow_unbound
        self._id = id
        self._toolbox: Toolbox | None = None

    @property
    def id(self) -> str | None:
        """The id of the toolset."""
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> HithertoToolset[AgentDepsT]:
        """The tools of the run's user."""
        run = copy.copy(self)
        run._toolbox = self._opened(ctx)
        return run

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """The tools by name."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=dict(tool.parameters),
                ),
                max_retries=1,
                # The toolbox checks, and says what is wrong in its result.
                args_validator=_ANY,
            )
            for tool in self._offered
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> dict[str, Any]:
        """Run a tool.

        Raises:
            UnboundCredentialError: The credential may act for any user.
        """
        toolbox = self._toolbox or self._opened(ctx)
        return (await asyncio.to_thread(toolbox.call, name, tool_args)).value

    def _opened(self, ctx: RunContext[AgentDepsT]) -> Toolbox:
        return Toolbox(
            self._memory,
            _user_of(self._user, ctx),
            conversation_id=ctx.conversation_id or "",
            allow_unbound=self._unbound,
        )


class HithertoHistory:
    """Keeps the messages of a conversation's runs, exactly and in order, for all processes.

    What the user and the model say can be searched and is learnt from; calls of tools and their
    results are in the history only. A conversation that began in another way goes on here.
    """

    def __init__(self, conversation: str, *, memory: Hitherto, user: str) -> None:
        """Open a history; it begins with its first message.

        Args:
            conversation: Your id for the conversation; give it to the runs as `conversation_id`.
            memory: The client.
            user: Whom the agent talks with.
        """
        self._chat = Chat(user, conversation)
        self._memory = memory

    async def messages(self, limit: int | None = None) -> list[ModelMessage]:
        """The messages, the oldest first, for `message_history`.

        Args:
            limit: How many of the last messages. There are fewer where these would not begin with
                words of the user. Unset: all.
        """
        return await asyncio.to_thread(self._read, limit)

    async def add(self, messages: Iterable[ModelMessage]) -> None:
        """Add what `new_messages` of a run returns.

        Raises:
            HithertoCallError: They could not be stored, or memory is switched off for the user
                (`MEMORY_DISABLED`).
        """
        await asyncio.to_thread(self._write, list(messages))

    def _read(self, limit: int | None) -> list[ModelMessage]:
        reader = ItemReader(_KIND)
        found: list[ModelMessage] = []
        for message in self._memory.messages(*self._chat):
            if len(found) == limit:
                break
            item = reader.take(message)
            if item is not None:
                found.append(_message_of(item))
        # Models refuse a history that begins with the result of a tool.
        while limit is not None and found and not _speaks(found[-1]):
            found.pop()
        return found[::-1]

    def _write(self, messages: Sequence[ModelMessage]) -> None:
        parts = [part for message in messages for part in _kept(message)]
        for batch in batched(parts):
            added = self._memory.add(self._chat.user, batch, conversation=self._chat.conversation)
            check_kept(added.job)


def _user_of(user: User[AgentDepsT], ctx: RunContext[AgentDepsT]) -> str:
    return user(ctx) if callable(user) else user


def _words(content: str | Sequence[UserContent] | None) -> str:
    """The text of a prompt, without pictures and files."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = (part.content if isinstance(part, TextContent) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _spoken(message: ModelMessage) -> str:
    """What the user or the model says in a message."""
    said = (part for part in message.parts if isinstance(part, UserPromptPart | TextPart))
    return "\n".join(text for part in said if (text := _words(part.content)))


def _speaks(message: ModelMessage) -> bool:
    """Whether the user says something in a message."""
    return any(isinstance(part, UserPromptPart) for part in message.parts)


def _utterances(messages: Iterable[ModelMessage], *, tools: bool = False) -> Iterator[Utterance]:
    """What is said in messages; with `tools` also the calls of tools and their results."""
    for message in messages:
        role: Role = "assistant" if isinstance(message, ModelResponse) else "user"
        if role == "assistant" or _speaks(message):
            yield Utterance(role, _spoken(message))
        for part in message.parts if tools else ():
            if isinstance(part, ToolCallPart):
                yield Utterance(
                    "tool", f"{part.tool_name}({part.args_as_json_str()})", part.tool_name
                )
            elif isinstance(part, ToolReturnPart):
                yield Utterance("tool", part.model_response_str(), part.tool_name)


def _kept(message: ModelMessage) -> Iterator[MessageInput]:
    if isinstance(message, ModelRequest) and message.instructions:
        # What was known then is no part of what was said, and may be forgotten since.
        message = replace(message, instructions=without_blocks(message.instructions))
    [value] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    role: Role = "assistant" if isinstance(message, ModelResponse) else "user"
    yield from as_messages(_KIND, value, role=role, text=_spoken(message), label=message.kind)


def _message_of(item: KeptItem) -> ModelMessage:
    if item.value is not None:
        return ModelMessagesTypeAdapter.validate_python([item.value])[0]
    if item.message.role == "user":
        return ModelRequest([UserPromptPart(item.message.content)])
    return ModelResponse([TextPart(item.message.content)])
