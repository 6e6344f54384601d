"""Reads what the model is shown with a batch of messages, and builds the prompt from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_extraction.pipeline import sealed_memories
from hitherto_extraction.pipeline.prompt import build_prompt
from hitherto_extraction.pipeline.selection import MAX_TAGS, select_memories
from hitherto_extraction.pipeline.trust import is_higher
from hitherto_extraction.provider.protocol import Batch, Prompt, PromptMemory, PromptMessage
from hitherto_extraction.storage import known_memories, profiles, summaries, users
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.summaries import HeldSummary
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Profile
from hitherto_shared.offloading import in_thread_if_long


@dataclass(frozen=True, slots=True)
class ExtractionRules:
    """How much goes into one model call, and whether messages get vectors."""

    batch_tokens: int
    prompt_memories: int
    message_vectors: bool = True


@dataclass(frozen=True, slots=True)
class ExtractionPrompt:
    """A prompt, the memory and message behind each of its local ids, and the summary at that time.

    If the user `encrypts`, neither the summary nor the messages are embedded.
    """

    prompt: Prompt
    local_memories: Mapping[str, UUID]
    messages: Mapping[str, StoredMessage]
    summary: HeldSummary
    encrypts: bool = False


@dataclass(frozen=True, slots=True)
class PromptBackground:
    """What a prompt says about the user and the conversation, whatever messages it is about.

    `sealed` are the user's sealed memories, opened.
    """

    encrypts: bool
    profile: Profile
    summary: HeldSummary
    sealed: Mapping[UUID, CurrentMemory]
    tags: Sequence[str]


async def read_background(user: UserRows, conversation_id: str) -> PromptBackground:
    """The background of a prompt, in one round trip."""
    state, (profile, _), summary, sealed, in_use = await together(
        user.connection,
        users.read_user(user),
        profiles.read_profile(user),
        summaries.read(user, conversation_id),
        sealed_memories.read_current(user),
        known_memories.tags_in_use(user, MAX_TAGS),
    )
    tags = sealed_memories.tags_of(in_use, list(sealed.values()), MAX_TAGS)
    encrypts = state is not None and state.encrypts
    return PromptBackground(encrypts, profile, summary, sealed, tags)


async def read_prompt(
    user: UserRows,
    conversation_id: str,
    batch: Sequence[StoredMessage],
    rules: ExtractionRules,
    *,
    background: PromptBackground | None = None,
) -> ExtractionPrompt:
    """The prompt about some messages.

    A `background` that was read with the messages is not read again.
    """
    messages = {f"m{i}": _as_said(message) for i, message in enumerate(batch, 1)}
    if background is None:
        background = await read_background(user, conversation_id)
    profile, known_summary, tags = background.profile, background.summary, background.tags
    chosen = await select_memories(
        user,
        list(messages.values()),
        limit=rules.prompt_memories,
        tags_in_use=tags,
        sealed=background.sealed,
    )
    local_memories = {f"e{i}": known for i, known in enumerate(chosen, 1)}
    data = Batch(
        profile=profiles.profile_content(profile) if profile.version else {},
        summary=(
            summaries.summary_content(known_summary.summary) if known_summary.summary else None
        ),
        memories=[memory_in_prompt(key, known) for key, known in local_memories.items()],
        messages=[
            PromptMessage(key, message.role, message.name, message.content, message.said_at)
            for key, message in messages.items()
        ],
        time_zone=known_summary.time_zone,
        tags_in_use=tags,
        user_id=user.scope.user_id,
    )
    letters = sum(len(message.content) for message in messages.values())
    letters += sum(len(known.content) for known in local_memories.values())
    prompt = await in_thread_if_long(letters, build_prompt, data)
    return ExtractionPrompt(
        prompt,
        {key: known.memory_id for key, known in local_memories.items()},
        messages,
        known_summary.quoting(batch),
        encrypts=background.encrypts,
    )


def memory_in_prompt(local_id: str, known: CurrentMemory) -> PromptMemory:
    """A known memory as a prompt shows it."""
    marks = [
        mark
        for mark, holds in (
            ("achieved", known.status == "achieved"),
            ("uncertain", known.doubtful),
            ("said by the assistant", not is_higher(known.origin)),
        )
        if holds
    ]
    return PromptMemory(local_id, known.type, known.content, known.valid_from, known.tags, marks)


def _as_said(message: StoredMessage) -> StoredMessage:
    """A message without the blocks of memory that were told before."""
    content = without_blocks(message.content)
    return message if content == message.content else replace(message, content=content)


# Many writers of JSON, such as Go's, and of HTML escape the brackets of a reply that is passed on.
_FENCE = re.compile(
    r"(?:<|\\{1,4}u003[Cc]|&lt;|&#60;){3}(end )?hitherto:memory ([0-9A-Za-z]{8,64})"
    r"(?:: [^<>\n]{0,200}?)?(?:>|\\{1,4}u003[Ee]|&gt;|&#62;){3}"
)


def without_blocks(text: str) -> str:
    """A text without the blocks between fence lines of ours, whoever put them there.

    A block ends at the fence with its id; one without such a fence was cut off, and ends with the
    text.
    """
    if "hitherto:memory" not in text:
        return text
    kept, at, inside = [], 0, ""
    for fence in _FENCE.finditer(text):
        closes, name = fence[1], fence[2]
        if not inside and not closes:
            kept.append(text[at : fence.start()])
            inside = name
        elif closes and name == inside:
            at, inside = fence.end(), ""
    if not inside:
        kept.append(text[at:])
    return "".join(kept)
