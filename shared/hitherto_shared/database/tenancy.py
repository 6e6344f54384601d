"""The current tenant, whose rows row-level security makes visible: the second layer of isolation.

Every statement names its tenant. For one that omits it, the policies of the schema show the roles
that work for one user only the rows of the tenant in the setting `hitherto.tenant_id`, which a pool
sets from here before it lends a connection. The role hitherto_maintenance sees all tenants.
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
