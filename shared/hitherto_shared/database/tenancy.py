"""The current tenant, whose rows row-level security makes visible.

Every statement names its tenant. This is the second layer of isolation, for a statement that omits
it: the policies of the schema (`schema/14_rights.sql`) show the roles that work for one user
only the rows of the tenant in the session's setting `hitherto.tenant_id`. A pool sets it from here
before it lends a connection (`Database.connection`). Work for no tenant sees no row. The role
hitherto_maintenance sees all tenants and needs no setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NOBODY = ""
"""No tenant has this id."""

_tenant: ContextVar[str] = ContextVar("hitherto_tenant", default=NOBODY)


def act_for(tenant_id: str) -> None:
    """Set the tenant from here to the end of this task: for a call or a job."""
    _tenant.set(tenant_id)


@contextmanager
def acting_for(tenant_id: str) -> Iterator[None]:
    """Set the tenant within the block: for one of several in background work."""
    before = _tenant.set(tenant_id)
    try:
        yield
    finally:
        _tenant.reset(before)


def tenant_at_work() -> str:
    """The current tenant; `NOBODY` outside calls and jobs."""
    return _tenant.get()
