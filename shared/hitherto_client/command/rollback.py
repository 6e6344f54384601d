"""`hitherto rollback`: taking back what a bad source taught."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK
from hitherto_client.command.options import add_command, add_user, connect
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(
        commands,
        "rollback",
        "Undo everything learnt from one conversation, document or job.",
        _run,
    )
    add_user(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--conversation", dest="conversation_id", default="", metavar="ID")
    source.add_argument("--document", dest="document_id", default="", metavar="ID")
    source.add_argument("--job", dest="job_id", default="", metavar="ID")
    parser.add_argument("--dry-run", action="store_true", help="only count; change nothing")
    add_yes(parser)


def _run(options: argparse.Namespace, output: Output) -> int:
    source = {
        "conversation_id": options.conversation_id,
        "document_id": options.document_id,
        "job_id": options.job_id,
    }
    with connect(options) as client:
        if not options.dry_run and not options.yes:
            would = client.rollback_source(options.user, dry_run=True, **source)
            output.note(f"would undo: {counted(would.counts) or 'nothing'}")
            if not confirmed(options, output, "Undo it?"):
                return FAILED
        reply = client.rollback_source(options.user, dry_run=options.dry_run, **source)
    if output.as_json:
        output.document(reply)
        return OK
    said = "would undo" if options.dry_run else "undone"
    output.line(f"{said}: {counted(reply.counts) or 'nothing'}")
    if options.dry_run:
        output.note("nothing was changed")
    return OK
