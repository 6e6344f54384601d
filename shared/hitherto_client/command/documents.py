"""`hitherto documents`: add, list, show and delete documents."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hitherto.v1 import document_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_client.batches import MAX_BYTES, groups
from hitherto_client.command.jobs import exit_code, follow, show_jobs
from hitherto_client.command.options import Argument, connect, read_text, wait
from hitherto_client.command.output import OK, Output, UsageError
from hitherto_client.command.progress import if_stopped
from hitherto_client.command.rpc import CONSISTENCY, USER, Command, CommandGroup, Option, Rpc, of
from hitherto_client.command.show import Column, CountsLine, OneRecord, Rows, day
from hitherto_client.records import fill, parse_object
from hitherto_client.wire import build

_MAX_DOCUMENTS = 100
_SECONDS = 120.0
"""How long one batch may wait for room in a full queue, unless --timeout says otherwise."""

_FIELDS = (
    Option("--source-type", "source_type", "the source system (text files: file)", "NAME"),
    Option("--source-id", "source_id", "the id there (text files: the file's name)", "ID"),
    Option("--content-type", "content_type", "the kind of it (text files: document)", "NAME"),
    Option("--title", "title", "the subject or name (text files: the file's name)", "TEXT"),
    Option("--author", "author", "the author", "NAME"),
    Option("--created", "created_at", "when it was created"),
    Option("--expires", "expires_at", "when reads stop returning it; it is then deleted"),
)
_TEXTS = ("source_type", "source_id", "content_type", "title")


def _source(document: document_pb2.Document) -> str:
    return f"{document.source_type} {document.source_id}"


_LIST = Rpc(
    "ListDocuments",
    (
        USER,
        Option("--source-type", "source_types", "only documents of this source", "NAME"),
        Option("--content-type", "content_types", "only documents of this kind", "NAME"),
        Option("--entity", "entity", "only items that mention this entity", "NAME"),
        CONSISTENCY,
    ),
    Rows(
        "documents",
        (
            Column("id", "id", whole=True),
            Column("from", _source),
            Column("kind", "content_type"),
            "title",
            "author",
            Column("made", lambda document: day(document.created_at)),
        ),
        "no matching documents of {user_id}",
    ),
    days=True,
)
_ID = Option("id", "document_id", "the id that list shows")
_SHOW = Rpc(
    "GetDocument",
    (USER, _ID, CONSISTENCY),
    OneRecord(
        "document",
        (
            "id",
            ("from", _source),
            ("kind", "content_type"),
            "title",
            "author",
            ("made", "created_at"),
            ("taken in", "updated_at"),
            ("expires", "expires_at"),
            "summary",
            "metadata",
            ("text", "content"),
        ),
        "the document is not shown",
    ),
)
_DELETE = Rpc(
    "DeleteDocument",
    (USER, _ID),
    CountsLine("deleted"),
    confirm="Delete document {document_id} of {user_id} for good? "
    "What it taught stays; only `hitherto rollback` beforehand takes that back.",
)


def _add(options: argparse.Namespace, output: Output) -> int:
    documents = [document for name in options.files for document in _read(name, options)]
    if not documents:
        raise UsageError("the files hold no documents")
    total = pb.IngestDocumentsResponse()
    jobs: list[job_pb2.Job] = []

    def left() -> str:
        if not jobs:
            return ""
        return (
            f"{len(total.document_ids)} documents were taken and are read in the background; "
            "handing all of them over again does no harm"
        )

    with connect(options) as client, if_stopped(output, left):
        for batch in groups(documents, _size, _MAX_DOCUMENTS):
            reply = client.connection.extraction.IngestDocuments(
                pb.IngestDocumentsRequest(user_id=options.user_id, documents=batch),
                timeout=options.timeout or _SECONDS,
            )
            jobs += [reply.job] if reply.HasField("job") else []
            total = _sum(total, reply)
        if options.wait and jobs:
            jobs = follow(client, jobs, output)
            total.job.CopyFrom(jobs[-1])
    output.result(total, lambda: _show_added(output, total, jobs))
    return exit_code(jobs) if options.wait else OK


def _show_added(
    output: Output, total: pb.IngestDocumentsResponse, jobs: Sequence[job_pb2.Job]
) -> None:
    output.line(
        f"{total.new_count} new, {total.replaced_count} replaced, {total.unchanged_count} unchanged"
    )
    for document_id in total.document_ids:
        output.line(document_id)
    if jobs:
        show_jobs(output, jobs)


def _sum(
    total: pb.IngestDocumentsResponse, reply: pb.IngestDocumentsResponse
) -> pb.IngestDocumentsResponse:
    """Both replies in one, with the job and the token of the last."""
    for name in ("new_count", "replaced_count", "unchanged_count"):
        setattr(reply, name, getattr(reply, name) + getattr(total, name))
    if total.HasField("job") and not reply.HasField("job"):
        reply.job.CopyFrom(total.job)
    reply.document_ids[:] = [*total.document_ids, *reply.document_ids]
    return reply


def _size(document: document_pb2.Document) -> int:
    """Its bytes in a request; one that no request can hold is refused."""
    size = document.ByteSize() + 8
    if size > MAX_BYTES:
        raise UsageError(f"{document.source_id} has {size} bytes, and 4 MiB are the most: split it")
    return size


def _read(name: str, options: argparse.Namespace) -> Iterator[document_pb2.Document]:
    """The documents of a file: one for each JSON line, or the file itself."""
    source = "stdin" if name == "-" else name
    text = read_text(name).replace("\r\n", "\n")
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
    if len(options.files) > 1 and options.source_id:
        raise UsageError("--source-id goes with one text only")
    of_file = ("file", path.name, "document", path.stem)
    values: Any = {
        name: getattr(options, name) or default
        for name, default in zip(_TEXTS, of_file, strict=True)
    }
    return _complete(document_pb2.Document(**values, content=text), options)


def _complete(
    document: document_pb2.Document, options: argparse.Namespace
) -> document_pb2.Document:
    """The document with what the options say where it says nothing itself."""
    for name in (*_TEXTS, "author"):
        if not getattr(document, name):
            setattr(document, name, getattr(options, name) or "")
    for moment in ("created_at", "expires_at"):
        if getattr(options, moment) and not document.HasField(moment):
            document.MergeFrom(build(document_pb2.Document, **{moment: getattr(options, moment)}))
    return document


COMMANDS = (
    CommandGroup(
        "documents",
        "Add, list, show and delete documents: files, emails, tasks, events.",
        Command(
            "add",
            "Submit documents; known ones are replaced.",
            *of(pb.IngestDocumentsRequest, USER),
            Argument(
                "files",
                "JSON lines of documents, or one text file; - reads standard input",
                "FILE",
                nargs="+",
            ),
            *of(document_pb2.Document, *_FIELDS),
            wait("only submit them"),
            run=_add,
        ),
        Command("list", "List documents, newest first.", _LIST),
        Command("show", "Show one document with its text.", _SHOW),
        Command("delete", "Remove a document for good; what was learnt from it stays.", _DELETE),
    ),
)
