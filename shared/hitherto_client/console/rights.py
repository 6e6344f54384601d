"""What a credential may see and do, found out by asking the services.

No call tells a credential's rights. Each question here is a call that changes nothing: a read, or a
write without the field that it requires, which is refused either for that or for the missing right.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.errors import HithertoCallError

_NOBODY = "nobody (asked by the console)"
"""A user that does not exist; always the same, so that the audit log counts it in one line."""
_CANNOT_READ = "This credential may not read. Use one with the scope read."


class SignInRefused(Exception):
    """This credential opens no console; the message says why and what would."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the console shows and offers. The services check every call again."""

    person: str
    """The only person that the credential may act for; empty for a service's credential."""
    everybody: bool
    """It may act for every user of its tenant."""
    write: bool
    maintenance: bool
    admin: bool
    profiles: bool
    """It may change profiles of others, departments and access levels."""
    edits_profile: bool
    """It may change the profiles that it sees, as far as can be told beforehand."""
    erases: bool
    """It may erase those that it acts for."""


async def find_rights(client: AsyncHitherto, person: str = "", token: str = "") -> Rights:
    """The rights of the client's credential.

    `person` is whose credential it is by the form, empty if it said nothing. A token that is a JWT
    names its person.

    Raises:
        SignInRefused: It cannot read, or it is a person's and does not say whose.
        HithertoCallError: The credential is not valid, or a service cannot be asked.
    """
    refusal = await _refusal(client.find_entities(_NOBODY, limit=1))
    if refusal == "SCOPE_MISSING":
        raise SignInRefused(_CANNOT_READ)
    everybody = not refusal
    whose = "" if everybody else await _person(client, person, token)
    subject = whose or _NOBODY
    write, profiles, maintains, admin = await asyncio.gather(
        _holds(client.forget_memory(subject, "")),
        _holds(client.update_profile(_NOBODY, clear=["no_such_field"]), "CAPABILITY_MISSING"),
        _holds(client.get_usage("" if everybody else subject, page_size=1)),
        _holds(client.audit_events("" if everybody else subject, page_size=1).page()),
    )
    return Rights(
        person=whose,
        everybody=everybody,
        write=write,
        maintenance=maintains,
        admin=admin,
        profiles=write and profiles,
        edits_profile=write and (profiles or bool(whose)),
        erases=admin or (write and bool(whose)),
    )


async def _person(client: AsyncHitherto, named: str, token: str) -> str:
    """The person that the credential is bound to; empty if it is a service's for some users."""
    try:
        jobs = (await client.jobs(page_size=1).page()).items
    except HithertoCallError as error:
        if error.code is not grpc.StatusCode.PERMISSION_DENIED:
            raise
        if error.reason == "SCOPE_MISSING":
            raise SignInRefused(_CANNOT_READ) from None
        return ""
    subject = claims_of(token).get("sub")
    person = named or (subject if isinstance(subject, str) else "")
    person = person or (jobs[0].user_id if jobs else "")
    if not person:
        raise SignInRefused(
            "This key belongs to one person. Fill in that person's user id below the credential."
        )
    if await _refusal(client.find_entities(person, limit=1)):
        raise SignInRefused(f"This credential does not belong to {person!r}.")
    return person


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified: the services verify it with every call. Or none at all."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


async def _holds(call: Awaitable[Any], missing: str = "SCOPE_MISSING") -> bool:
    """Whether the services refuse the call for something else than a missing right, or not."""
    return await _refusal(call) != missing


async def _refusal(call: Awaitable[Any]) -> str:
    """Why the credential may not make this call; empty if it may.

    Raises:
        HithertoCallError: It failed for another reason than its rights or its arguments.
    """
    try:
        await call
    except HithertoCallError as error:
        if error.code is grpc.StatusCode.PERMISSION_DENIED:
            return error.reason or "USER_NOT_ALLOWED"
        if error.code is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
    return ""
