"""The caller, once known."""

from __future__ import annotations

from dataclasses import dataclass

from recollect_shared.errors import NotPermitted
from recollect_shared.models import Scope

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller after authentication; nothing in a request can change it.

    Attributes:
        tenant_id: Whose data the caller may touch at all.
        subject: Name of the credential, for history and audit.
        scopes: Subset of read, write, maintenance, admin.
        user_id: The only user the caller may act for, or None for every user of the tenant.
        departments: Those that the caller belongs to, or None if it is bound to none.
    """

    tenant_id: str
    subject: str
    scopes: frozenset[str]
    user_id: str | None = None
    departments: frozenset[str] | None = None

    def scope(self, user_id: str) -> Scope:
        """The data of `user_id`, if this caller may touch it.

        Raises:
            NotPermitted: The credential is bound to another user.
        """
        if self.user_id is not None and self.user_id != user_id:
            raise NotPermitted(
                "this credential is bound to another user",
                reason="USER_NOT_ALLOWED",
                metadata={"field": "user_id"},
            )
        return Scope(self.tenant_id, user_id)


ANONYMOUS = Principal(
    DEFAULT_TENANT, "anonymous", frozenset({"read", "write", "maintenance", "admin"})
)
"""Everybody, where authentication is off: loopback with the embedded database."""
