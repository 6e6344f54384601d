"""Whose rows the work at hand may see: the tenant that row-level security lets through.

Every statement names its tenant. This is the second wall, for the statement that forgets to: the
policies of the schema (`migrations/0024_walls.sql`) let the roles that work for one user see the
rows of one tenant only, the one in the setting `hitherto.tenant_id` of the session. A pool sets it
before it lends a connection (`Database.connection`), from what stands here. Work for nobody sees no
row. The role hitherto_maintenance looks across tenants and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NOBODY = ""
"""No tenant has this id."""

_tenant: ContextVar[str] = ContextVar("hitherto_tenant", default=NOBODY)


def act_for(tenant_id: str) -> None:
    """Work for a tenant from here to the end of this task: a call that came in, a job."""
    _tenant.set(tenant_id)


@contextmanager
def acting_for(tenant_id: str) -> Iterator[None]:
    """Work for a tenant within the block: one of several that background work is about."""
    before = _tenant.set(tenant_id)
    try:
        yield
    finally:
        _tenant.reset(before)


def tenant_at_work() -> str:
    """The tenant whose work this is; `NOBODY` outside of calls and jobs."""
    return _tenant.get()
