"""`hitherto audit list` and `audit verify`: the audit log, and whether it is what was signed.

The services list it. To verify it, the command works on the database itself, since it checks what
the services did, too. The server's packages that this needs are imported when it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitherto.v1 import privacy_pb2
from hitherto_client.command.local_database import on_database, server_packages
from hitherto_client.command.options import Argument, Repeated
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.rpc import EVERYBODY, SINCE, UNTIL, Command, CommandGroup, Option, Rpc
from hitherto_client.command.show import Column, Rows, show_rows

if TYPE_CHECKING:
    from hitherto_shared.audit.verify import Finding

_HASH_DIGITS = 12
_VERIFY_SECONDS = 3_600.0
"""There may be years to read."""


def _touched(event: privacy_pb2.AuditEvent) -> str:
    """The first of the resources, and how many there are besides."""
    more = len(event.resource_ids) - 1
    return " ".join(event.resource_ids[:1]) + (f" +{more}" if more > 0 else "")


_DAYS = ("day", Column("entries", "count", number=True), Column("state", "told"))
_LIST = Rpc(
    "ListAuditEvents",
    (
        EVERYBODY,
        Option("--actor", "actor", "only entries of this credential", "NAME"),
        Option(
            "--method",
            "methods",
            "only this RPC, such as /hitherto.v1.PrivacyService/EraseUser, or kind of job",
            "NAME",
        ),
        Option("--since", "created_after", SINCE),
        Option("--until", "created_before", UNTIL),
    ),
    Rows(
        "audit_events",
        (
            Column("time", "created_at"),
            "actor",
            Column("method", lambda event: event.method.rpartition("/")[2]),
            Column("user", lambda event: event.user_hash[:_HASH_DIGITS]),
            Column("touched", _touched),
            Column("count", "count", number=True),
        ),
    ),
)


def _verify(options: argparse.Namespace, output: Output) -> int:
    tenant = options.tenant
    try:
        with server_packages():
            from hitherto_shared.audit.verify import verify_log  # noqa: PLC0415

            keys, kept = _public_keys(options.public_keys), _kept(options.digests, tenant)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    found = on_database(
        lambda connection: verify_log(connection, tenant, keys, kept), seconds=_VERIFY_SECONDS
    )
    _show_findings(found, output, tenant)
    return OK if all(each.good for each in found) else FAILED


def _public_keys(paths: Sequence[Path]) -> list[bytes]:
    """The public halves to check against."""
    from hitherto_shared.config import SharedSettings  # noqa: PLC0415
    from hitherto_shared.key_files import signing_key_path  # noqa: PLC0415
    from hitherto_shared.signing import read_public_key  # noqa: PLC0415

    return [read_public_key(path) for path in paths or [signing_key_path(SharedSettings())]]


def _kept(path: Path | None, tenant_id: str) -> list[Any]:
    """The tenant's digests in a file, which must hold some."""
    from hitherto_shared.audit.verify import read_digests  # noqa: PLC0415

    if path is None:
        return []
    with path.open(encoding="utf-8", errors="replace") as lines:
        found = [each for each in read_digests(lines) if each.tenant_id == tenant_id]
    if not found:
        raise ValueError(
            f"{path} holds no digest of the tenant {tenant_id}: give a log of the extraction "
            "service that has lines `a day of the audit log was signed`"
        )
    return found


def _show_findings(found: Sequence[Finding], output: Output, tenant_id: str) -> None:
    if output.as_json:
        output.document(
            {
                "tenant_id": tenant_id,
                "verified": all(each.good for each in found),
                "days": [
                    {"day": each.day.isoformat(), "state": each.state, "count": each.count}
                    for each in found
                ],
            }
        )
        return
    if not found:
        output.note(f"no day of the tenant {tenant_id} has been signed yet")
        return
    show_rows(output, _DAYS, found)
    bad = sum(not each.good for each in found)
    if bad:
        output.error(f"{bad} of {len(found)} days are not what was signed")
    else:
        output.note("every signed day is unchanged")


COMMANDS = (
    CommandGroup(
        "audit",
        "Show the audit log, and verify it.",
        Command("list", "List who did what, newest first.", _LIST),
        Command(
            "verify",
            "Check the log against its signed digests; needs the database.",
            Argument(
                "--tenant", "the tenant whose log to verify (default: default)", default="default"
            ),
            Argument(
                "--digests",
                "digests kept elsewhere, such as the extraction service's log: each "
                "must be in the database, unchanged",
                "FILE",
                type=Path,
            ),
            Repeated(
                "--public-key",
                "a key that signed digests, in PEM form (default: that of this installation)",
                "FILE",
                dest="public_keys",
                type=Path,
            ),
            run=_verify,
            local=True,
        ),
    ),
)
