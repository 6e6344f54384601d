"""Options about which memories are meant, and as of when; several commands share them."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto_client.command.memory_view import CONFIDENCES, SOURCES, STATUSES, TYPES
from hitherto_client.command.options import add_enum, json_object, moment, numbers, words


def add_filters(parser: argparse.ArgumentParser) -> None:
    """What narrows a search and a list alike."""
    add_enum(parser, "--type", TYPES, "types", "only memories of this type")
    parser.add_argument("--tag", dest="tags", action="append", default=[], metavar="TAG")
    add_enum(parser, "--status", STATUSES, "statuses", "only memories with this status")
    add_enum(parser, "--source", SOURCES, "sources", "only memories created in this way")
    parser.add_argument(
        "--entity", default="", metavar="NAME", help="only items that mention this entity"
    )
    parser.add_argument(
        "--conversation", default="", metavar="ID", help="only items from this conversation"
    )
    parser.add_argument("--min-confidence", choices=words(CONFIDENCES), type=str.lower)
    parser.add_argument(
        "--created-after",
        type=moment,
        metavar="TIME",
        help="only items created at this time or later",
    )
    parser.add_argument(
        "--created-before", type=moment, metavar="TIME", help="only items created before this time"
    )
    parser.add_argument(
        "--metadata",
        type=json_object,
        metavar="JSON",
        help="only items with all of these metadata values",
    )


def add_time_travel(parser: argparse.ArgumentParser) -> None:
    """As of when to answer."""
    parser.add_argument("--as-of", type=moment, metavar="TIME", help="what was true at this time")
    parser.add_argument(
        "--known-at", type=moment, metavar="TIME", help="what was known at this time"
    )


def add_consistency(parser: argparse.ArgumentParser) -> None:
    """The write that the reply has to show."""
    parser.add_argument(
        "--consistency-token",
        default="",
        metavar="TOKEN",
        help="from the reply to a write: show at least that write",
    )


def filter_fields(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_filters` read, as fields of the request."""
    fields: dict[str, Any] = {
        "types": numbers(TYPES, options.types),
        "tags": options.tags,
        "statuses": numbers(STATUSES, options.statuses),
        "sources": numbers(SOURCES, options.sources),
        "entity": options.entity,
        "conversation_id": options.conversation,
        "created_after": options.created_after,
        "created_before": options.created_before,
        "metadata_filter": options.metadata,
    }
    if options.min_confidence:
        fields["confidence_min"] = numbers(CONFIDENCES, [options.min_confidence])[0]
    return fields


def moment_fields(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_time_travel` and `add_consistency` read, as fields of the request."""
    return {
        "as_of": options.as_of,
        "known_at": options.known_at,
        "consistency_token": options.consistency_token,
    }
