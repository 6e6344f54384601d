"""Exports of chat assistants: ChatGPT and Claude."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hitherto_client.importers.values import (
    JsonObject,
    by_time,
    list_of,
    mapping_of,
    messages_of,
    moment,
    objects_of,
    text_of,
)

_TIME = "create_time"
_CLAUDE_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def chatgpt(value: JsonObject) -> Iterator[JsonObject]:
    """A conversation of `conversations.json`: the branch that the user saw last.

    Edited questions and regenerated answers are other branches and were not what was said in the
    end. Hidden instructions, tools and pictures are left out.
    """
    nodes = {name: mapping_of(node) for name, node in mapping_of(value.get("mapping")).items()}
    given = {name: mapping_of(node.get("message")) for name, node in nodes.items()}
    messages = {name: _chatgpt_message(message) for name, message in given.items()}
    parents = {
        child: name
        for name, node in nodes.items()
        for child in list_of(node.get("children"))
        if isinstance(child, str)
    }
    branch = last_branch(
        {
            name: text_of(node.get("parent")) or parents.get(name, "")
            for name, node in nodes.items()
        },
        text_of(value.get("current_node")),
        by_time({name: message.get(_TIME) for name, message in given.items()}),
        {name for name, message in messages.items() if message.get("content")},
    )
    yield from _conversation(
        "chatgpt",
        text_of(value.get("conversation_id")) or text_of(value.get("id")),
        text_of(value.get("title")),
        [messages[name] for name in branch],
        moment(value.get(_TIME), value.get("update_time")),
    )


def _chatgpt_message(message: JsonObject) -> JsonObject:
    role = text_of(mapping_of(message.get("author")).get("role"))
    hidden = mapping_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    for_a_tool = (text_of(message.get("recipient")) or "all") != "all"
    content = mapping_of(message.get("content"))
    if (
        hidden
        or for_a_tool
        or text_of(content.get("content_type")) not in {"text", "multimodal_text"}
    ):
        return {}
    spoken = [_part(part) for part in list_of(content.get("parts"))]
    return {
        "id": text_of(message.get("id")),
        "role": role,
        "content": "\n".join(part for part in spoken if part),
        "created_at": moment(message.get(_TIME), message.get("update_time")),
    }


def _part(part: object) -> str:
    """The words of a part; spoken words of a voice chat included, pictures not."""
    return part if isinstance(part, str) else text_of(mapping_of(part).get("text"))


def claude(value: JsonObject) -> Iterator[JsonObject]:
    """A conversation of `conversations.json`: the branch that the user saw last.

    The text of attached files is left out.
    """
    given = {
        text_of(one.get("uuid")) or f"#{place}": one
        for place, one in enumerate(objects_of(value.get("chat_messages")))
    }
    messages = {name: _claude_message(one) for name, one in given.items()}
    parents: dict[str, str] = {}
    before = ""
    for name, one in given.items():
        # Older exports name no parents: there each message follows the one before it.
        parents[name] = text_of(one.get("parent_message_uuid")) or before
        before = name
    branch = last_branch(
        parents,
        text_of(value.get("current_leaf_message_uuid")),
        by_time({name: one.get("created_at") for name, one in given.items()}),
        {name for name, message in messages.items() if message["content"]},
    )
    yield from _conversation(
        "claude",
        text_of(value.get("uuid")),
        text_of(value.get("name")),
        [messages[name] for name in branch],
        moment(value.get("created_at"), value.get("updated_at")),
    )


def claude_people(value: JsonObject) -> set[str]:
    """Whose conversation it is; the export of an organisation holds those of its members."""
    return {text_of(mapping_of(value.get("account")).get("uuid"))} - {""}


def _claude_message(message: JsonObject) -> JsonObject:
    return {
        "id": text_of(message.get("uuid")),
        "role": _CLAUDE_ROLES.get(text_of(message.get("sender")), ""),
        "content": _claude_text(message),
        "created_at": moment(message.get("created_at"), message.get("updated_at")),
    }


def _claude_text(message: JsonObject) -> str:
    parts = [
        text_of(part.get("text"))
        for part in objects_of(message.get("content"))
        if part.get("type") == "text"
    ]
    return "\n".join(part for part in parts if part) or text_of(message.get("text"))


def _conversation(
    source: str, identity: str, title: str, given: list[JsonObject], began: str
) -> Iterator[JsonObject]:
    """A transcript; nothing if nobody said anything in it."""
    messages = messages_of(given, began)
    for message in messages:
        message["metadata"] = {"imported_from": source} | ({"title": title} if title else {})
    if messages and identity:
        yield {"conversation_id": f"{source}:{identity}", "messages": messages}


def last_branch(
    parents: Mapping[str, str], leaf: str, newest: Sequence[str], spoken: Collection[str]
) -> list[str]:
    """The ids of one branch, from its beginning.

    Args:
        parents: The parent of each id.
        leaf: The last id of the branch, as the export names it. If it is none of the ids, or
            nobody has spoken until then, the branch ends with the newest one that nothing answers.
        newest: The ids, the newest last.
        spoken: The ids of what somebody said.
    """
    links = _over_gaps(parents, newest)
    answered = set(links.values())
    silent: set[str] = set()
    for last in (leaf, *(one for one in reversed(newest) if one not in answered)):
        branch: dict[str, None] = {}
        at = last
        while at in links and at not in branch and at not in silent:
            branch[at] = None
            at = links[at]
        if any(one in spoken for one in branch):
            return list(reversed(branch))
        silent.update(branch)
    return []


def _over_gaps(parents: Mapping[str, str], newest: Sequence[str]) -> dict[str, str]:
    """The parents, where one that was left out is that which was said before its first child.

    What the conversation begins with has no parent either. All that come from the same one are
    edits of each other.
    """
    links = dict(parents)
    if not any(parents.values()):
        return dict(zip(newest, ("", *newest), strict=False))
    instead: dict[str, str] = {}
    before = ""
    for one in newest:
        parent = parents[one]
        if parent not in parents:
            links[one] = instead.setdefault(parent, before if instead else parent)
        before = one
    return links
