"""What belongs to the person: all data to take along, to clear and to erase; and the settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any, get_args
from urllib.parse import quote
from zoneinfo import available_timezones

from google.protobuf import json_format
from starlette.responses import Response, StreamingResponse

from hitherto.v1 import privacy_pb2
from hitherto_client.console.failures import Failure
from hitherto_client.console.visits import Show, Visit, change, look, or_again
from hitherto_client.export import ExportBroken
from hitherto_client.results import EraseReceipt
from hitherto_client.wire import build
from hitherto_client.words import SecretHandling

_PIECE_BYTES = 256 * 1024


async def _data(visit: Visit, problem: Failure | None = None) -> Response:
    return visit.page("data.html", problem)


async def _export(visit: Visit) -> Response:
    # Received and checked as a whole, so that nobody takes a part for everything.
    received = tempfile.TemporaryFile(prefix="hitherto-export-")  # noqa: SIM115
    try:
        manifest = await visit.client.export_user(visit.user, received)
    except ExportBroken:
        received.close()
        return visit.fail(Failure(502, "The export was incomplete", "Ask for it again."))
    except BaseException:
        received.close()
        raise
    name = quote(f"hitherto-{visit.user}.jsonl", safe="")
    return StreamingResponse(
        _pieces(received),
        media_type="application/x-ndjson",
        headers={
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "content-length": str(manifest.total_bytes),
        },
    )


def _pieces(received: IO[bytes]) -> Iterator[bytes]:
    with received:
        received.seek(0)
        while piece := received.read(_PIECE_BYTES):
            yield piece


async def _clear(visit: Visit) -> Response:
    counts = await visit.client.clear_memories(
        visit.user,
        include_profile=visit.form.ticked("include_profile"),
        include_conversations=visit.form.ticked("include_conversations"),
    )
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count)
    return visit.go("/data", f"Cleared: {told or 'there was nothing'}.")


async def _erase(visit: Visit) -> Response:
    receipt = await visit.client.erase_user(visit.user)
    visit.session.people.pop(visit.user, None)
    visit.session.receipts[receipt.id] = _as_json(receipt)
    return visit.go(f"/data/receipts/{receipt.id}")


async def _reinstate(visit: Visit) -> Response:
    await visit.client.reinstate_user(visit.user)
    visit.session.people.pop(visit.user, None)
    return visit.go("/memories", "Things may be stored about this person again.")


async def _receipt(visit: Visit) -> Response:
    text = visit.session.receipts.get(visit.named("receipt_id"))
    if text is None:
        return visit.fail(Failure(404, "There is no such receipt", "This session made none."))
    if visit.address.ticked("download"):
        return Response(
            text,
            media_type="application/json",
            headers={"content-disposition": 'attachment; filename="receipt.json"'},
        )
    return visit.page("receipt.html", receipt=json.loads(text), text=text)


def _confirmed(remove: Show) -> Show:
    """Removes data of whoever's id was typed."""

    async def show(visit: Visit) -> Response:
        if visit.form.text("confirm") == visit.user:
            return await remove(visit)
        told = f"To confirm, type the user id exactly: {visit.user}"
        return await _data(visit, Failure(400, "Nothing was removed", told))

    return show


def _as_json(receipt: EraseReceipt) -> str:
    """The receipt as `hitherto receipt verify` reads it."""
    message = build(privacy_pb2.EraseReceipt, **asdict(receipt))
    return json_format.MessageToJson(message, preserving_proto_field_name=True)


_SWITCHES = ("memory_enabled", "learning_enabled", "encrypt_sensitive")
_DAYS = ("retention_days", "message_retention_days")
_HANDLINGS = get_args(SecretHandling)
_MOST_DAYS = 2**31 - 1


async def _settings(visit: Visit, problem: Failure | None = None) -> Response:
    settings = await visit.client.get_user_settings(visit.user)
    shown = {name: "on" if getattr(settings, name) else "" for name in _SWITCHES}
    shown |= {
        name: str(getattr(settings, name)) for name in (*_DAYS, "time_zone", "redact_secrets")
    }
    zones = sorted(available_timezones())
    return visit.page("settings.html", problem, shown=shown, zones=zones)


async def _save_settings(visit: Visit) -> Response:
    form = visit.form
    changes: dict[str, Any] = {
        name: form.ticked(name)
        for name in _SWITCHES
        if form.ticked(name) != bool(form.was.get(name))
    }
    for name in filter(form.edited, _DAYS):
        changes[name] = form.whole(name, least=0, most=_MOST_DAYS)
    if form.edited("redact_secrets"):
        changes["redact_secrets"] = form.word("redact_secrets", _HANDLINGS)
    if form.edited("time_zone"):
        changes["time_zone"] = form.text("time_zone")
    # A field that was emptied says nothing.
    changes = {name: value for name, value in changes.items() if value not in (None, "")}
    if not changes:
        return visit.go("/settings", "Nothing was changed.")
    await visit.client.update_user_settings(visit.user, **changes)
    visit.session.people.pop(visit.user, None)
    return visit.go("/settings", "Saved.")


async def _reset(visit: Visit) -> Response:
    names = (*_SWITCHES, *_DAYS, "time_zone", "redact_secrets")
    await visit.client.update_user_settings(visit.user, clear=names)
    visit.session.people.pop(visit.user, None)
    return visit.go("/settings", "The defaults apply again.")


ROUTES = (
    look("/data", _data),
    change("/data/export", _export),
    change("/data/clear", _confirmed(_clear)),
    change("/data/erase", _confirmed(_erase)),
    change("/data/reinstate", _reinstate),
    look("/data/receipts/{receipt_id}", _receipt),
    look("/settings", _settings),
    change("/settings", or_again(_save_settings, _settings)),
    change("/settings/reset", _reset),
)
