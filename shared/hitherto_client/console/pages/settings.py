"""A person's settings: whether anything is learnt, for how long it stays, how it is stored."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from starlette.responses import Response

from hitherto_client.console.failures import Failure, explain
from hitherto_client.console.visits import Visit, change, look
from hitherto_client.errors import HithertoCallError

_SWITCHES = ("memory_enabled", "learning_enabled", "encrypt_sensitive")
_DAYS = ("retention_days", "message_retention_days")
_MOST_DAYS = 2**31 - 1


async def _settings(visit: Visit) -> Response:
    return await _shown(visit)


async def _shown(visit: Visit, problem: Failure | None = None) -> Response:
    return visit.page(
        "settings.html",
        problem.status if problem else 200,
        settings=await visit.client.get_user_settings(visit.user),
        zones=sorted(available_timezones()),
        problem=problem,
    )


async def _save(visit: Visit) -> Response:
    form = visit.form
    now = await visit.client.get_user_settings(visit.user)
    given: dict[str, Any] = {name: form.ticked(name) for name in _SWITCHES}
    given |= {name: form.whole(name, least=0, most=_MOST_DAYS) for name in _DAYS}
    given["time_zone"] = form.text("time_zone") or None
    changes = {
        name: value
        for name, value in given.items()
        if value is not None and value != getattr(now, name)
    }
    if not changes:
        return visit.go("/settings", "Nothing was changed.")
    try:
        await visit.client.update_user_settings(visit.user, **changes)
    except HithertoCallError as error:
        if error.code.name not in ("INVALID_ARGUMENT", "FAILED_PRECONDITION"):
            raise
        return await _shown(visit, explain(error))
    return visit.go("/settings", "Saved.")


async def _reset(visit: Visit) -> Response:
    await visit.client.update_user_settings(visit.user, clear=(*_SWITCHES, *_DAYS, "time_zone"))
    return visit.go("/settings", "The values of the installation apply again.")


ROUTES = (
    look("/settings", _settings),
    change("/settings", _save),
    change("/settings/reset", _reset),
)
