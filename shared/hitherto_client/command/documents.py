"""`hitherto documents`: emails, files, tasks and events as knowledge."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hitherto.v1 import document_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK, UsageError
from hitherto_client.command.filters import add_consistency
from hitherto_client.command.follow import follow
from hitherto_client.command.job_table import exit_code, show_jobs
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_group,
    add_paging,
    add_user,
    add_wait,
    connect,
    moment,
    read_pages,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted, day, free_json, minute
from hitherto_client.errors import HithertoCallError
from hitherto_client.records import fill, parse_object

_MAX_DOCUMENTS = 100
_MAX_BYTES = 4 * 1024 * 1024 - 64 * 1024
_SECONDS = 120.0
"""How long one batch may wait for room in a full queue, unless --timeout says otherwise."""


def register(commands: Any) -> None:
    """Add the sub-command and its own."""
    actions = add_group(
        commands, "documents", "Add, list, show and delete documents: files, emails, tasks, events."
    )
    add = add_command(actions, "add", "Hand documents over; known ones are replaced.", _add)
    add_user(add)
    add.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSON lines of documents, or one text file; - reads standard input",
    )
    add.add_argument("--source-type", metavar="NAME", help="the source system (text files: file)")
    add.add_argument("--source-id", metavar="ID", help="the id there (text files: the file's name)")
    add.add_argument(
        "--content-type", metavar="NAME", help="the kind of document (text files: document)"
    )
    add.add_argument(
        "--title", metavar="TEXT", help="the subject or name (text files: the file's name)"
    )
    add.add_argument("--author", metavar="NAME", help="the author")
    add.add_argument("--created", type=moment, metavar="TIME", help="when it was created")
    add_wait(add, otherwise="only hand over")
    listing = add_command(actions, "list", "List documents, newest first.", _list)
    add_user(listing)
    listing.add_argument(
        "--source-type", dest="source_types", action="append", default=[], metavar="NAME"
    )
    listing.add_argument(
        "--content-type", dest="content_types", action="append", default=[], metavar="NAME"
    )
    listing.add_argument(
        "--entity", default="", metavar="NAME", help="only items that mention this entity"
    )
    add_consistency(listing)
    add_paging(listing)
    show = add_command(actions, "show", "Show one document with its text.", _show)
    add_consistency(show)
    delete = add_command(
        actions, "delete", "Remove a document for good; what was learnt from it stays.", _delete
    )
    for action in (show, delete):
        add_user(action)
        action.add_argument("id", metavar="ID", help="the id that list shows")
    add_yes(delete)


def _add(options: argparse.Namespace, output: Output) -> int:
    documents = [document for name in options.files for document in _read(name, options)]
    if not documents:
        raise UsageError("the files hold no documents")
    total = pb.IngestDocumentsResponse()
    jobs: list[job_pb2.Job] = []
    with connect(options) as client:
        try:
            for batch in batches(documents):
                reply = client.ingest_documents(
                    options.user, batch, timeout=options.timeout or _SECONDS
                )
                _merge(total, reply)
                if reply.HasField("job"):
                    jobs.append(reply.job)
            if options.wait and jobs:
                jobs = follow(client, jobs, output)
        except (KeyboardInterrupt, HithertoCallError):
            if jobs:
                output.note(
                    f"{len(total.document_ids)} documents were taken and are read in the "
                    "background; handing all of them over again does no harm"
                )
            raise
    if jobs:
        total.job.CopyFrom(jobs[-1])
    if output.as_json:
        output.document(total)
    else:
        output.line(
            f"{total.new_count} new, {total.replaced_count} replaced, "
            f"{total.unchanged_count} unchanged"
        )
        for document_id in total.document_ids:
            output.line(document_id)
        if jobs:
            show_jobs(output, jobs)
    return exit_code(jobs) if options.wait else OK


def _merge(total: pb.IngestDocumentsResponse, reply: pb.IngestDocumentsResponse) -> None:
    total.new_count += reply.new_count
    total.replaced_count += reply.replaced_count
    total.unchanged_count += reply.unchanged_count
    total.document_ids.extend(reply.document_ids)
    total.consistency_token = reply.consistency_token


def batches(documents: list[document_pb2.Document]) -> Iterator[list[document_pb2.Document]]:
    """Groups that fit into one request each, in their order.

    Raises:
        UsageError: One document alone is too large.
    """
    batch: list[document_pb2.Document] = []
    size = 0
    for document in documents:
        document_size = document.ByteSize() + 8
        if document_size > _MAX_BYTES:
            raise UsageError(
                f"{document.source_id} has {document_size} bytes, and 4 MiB are the most: split it"
            )
        if batch and (len(batch) >= _MAX_DOCUMENTS or size + document_size > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += document_size
    if batch:
        yield batch


def _read(name: str, options: argparse.Namespace) -> Iterator[document_pb2.Document]:
    """The documents of a file: one for each JSON line, or the file itself."""
    source = "stdin" if name == "-" else name
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UsageError(f"{source} is not UTF-8: save the file as UTF-8 text") from None
    if not text.lstrip().startswith("{"):
        yield _text_document(source, text, options)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                document = document_pb2.Document()
                fill(parse_object(line), document)
            except ValueError as error:
                raise UsageError(f"{source}, line {number}: {error}") from None
            yield _complete(document, options)


def _text_document(source: str, text: str, options: argparse.Namespace) -> document_pb2.Document:
    path = Path(source)
    if source == "stdin" and not options.source_id:
        raise UsageError("a text from standard input needs --source-id")
    document = document_pb2.Document(
        source_type="file",
        source_id=path.name,
        content_type="document",
        title=path.stem,
        content=text,
    )
    if len(options.files) > 1 and options.source_id:
        raise UsageError("--source-id goes with one text only")
    for name in ("source_type", "source_id", "content_type", "title"):
        if given := getattr(options, name):
            setattr(document, name, given)
    return _complete(document, options)


def _complete(
    document: document_pb2.Document, options: argparse.Namespace
) -> document_pb2.Document:
    """The document with what the options say where it says nothing itself."""
    for name in ("source_type", "source_id", "content_type", "title", "author"):
        if not getattr(document, name):
            setattr(document, name, getattr(options, name) or "")
    if options.created and not document.HasField("created_at"):
        document.created_at.CopyFrom(options.created)
    return document


def _list(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "documents",
            lambda size, token: client.list_documents(
                options.user,
                source_types=options.source_types,
                content_types=options.content_types,
                entity=options.entity,
                page_size=size,
                page_token=token,
                consistency_token=options.consistency_token,
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.documents:
        output.note(nothing(f"no matching documents of {options.user}", reply.reason))
        return OK
    output.table(
        ("id", "from", "kind", "title", "author", "made"),
        [
            (
                found.id,
                f"{found.source_type} {found.source_id}",
                found.content_type,
                found.title,
                found.author,
                day(found.created_at),
            )
            for found in reply.documents
        ],
        whole=("id",),
    )
    output.more(len(reply.documents), reply.total_size, reply.next_page_token)
    return OK


def _show(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.get_document(
            options.user, options.id, consistency_token=options.consistency_token
        )
    if output.as_json:
        output.document(reply)
        return OK
    if reply.reason:
        output.note(nothing("the document is not shown", reply.reason))
        return OK
    document = reply.document
    output.pairs(
        [
            ("id", document.id),
            ("from", f"{document.source_type} {document.source_id}"),
            ("kind", document.content_type),
            ("title", document.title),
            ("author", document.author),
            ("made", minute(document.created_at)),
            ("taken in", minute(document.updated_at)),
            ("summary", document.summary),
            ("metadata", free_json(document.metadata)),
            ("text", document.content),
        ]
    )
    return OK


def _delete(options: argparse.Namespace, output: Output) -> int:
    question = (
        f"Delete document {options.id} of {options.user} for good? "
        "What it taught stays; only `hitherto rollback` beforehand takes that back."
    )
    if not confirmed(options, output, question):
        return FAILED
    with connect(options) as client:
        reply = client.delete_document(options.user, options.id)
    if output.as_json:
        output.document(reply)
    else:
        output.line(f"deleted: {counted(reply.counts) or 'nothing was left'}")
    return OK
