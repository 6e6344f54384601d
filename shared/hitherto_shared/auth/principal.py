"""The authenticated caller."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hitherto_shared.errors import NotPermitted
from hitherto_shared.models import Scope

DEFAULT_TENANT = "default"
MAX_TENANT = 128
"""Maximum characters of a tenant's id."""

SCOPES = frozenset({"read", "write", "maintenance", "admin"})
"""The access scopes; none of them includes another."""

PROFILES_MANAGE = "profiles.manage"
"""The right to change other users' profiles, departments and access levels."""

CAPABILITIES = frozenset({PROFILES_MANAGE})
"""Individually named rights, in addition to the access scopes."""

NOT_LISTED = (
    "this credential is restricted to a list of users, and this user is not on it; the issuer of "
    "the credential can add the user"
)
"""The refusal of a call about any other user, known or not."""
ANOTHER_USER = "this credential is bound to another user"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller after authentication; nothing in a request can change it.

    Attributes:
        tenant_id: The tenant whose data the caller may access.
        subject: Name of the credential, for history and audit.
        scopes: Subset of `SCOPES`.
        user_id: The user who owns this credential, or None for a service.
        departments: The departments that the caller is restricted to; None for a caller that may
            act for everybody. A user is always restricted: None becomes the empty set.
        capabilities: Subset of `CAPABILITIES`.
        users: The list of users that a service is restricted to, in normal form; None without a
            list. With a list, departments are never None, so that the two are combined. A user has
            none.
    """

    tenant_id: str
    subject: str
    scopes: frozenset[str]
    user_id: str | None = None
    departments: frozenset[str] | None = None
    capabilities: frozenset[str] = frozenset()
    users: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Make sure that no user and no list is unrestricted, however the credential was written.

        Raises:
            ValueError: It is a user's and has a list.
        """
        if self.user_id is not None and self.users is not None:
            raise ValueError(
                "a credential is restricted to one user or to a list of users, not both"
            )
        if (self.user_id is not None or self.users is not None) and self.departments is None:
            object.__setattr__(self, "departments", frozenset())

    @property
    def unbound(self) -> bool:
        """Whether the caller may act for everybody of the tenant."""
        return self.departments is None

    def reaches(self, user_id: str, department: str) -> bool:
        """Whether `user_id` is the caller, on the caller's list, or in one of its departments.

        This is the only rule about lists and departments.

        `department` is the one in that user's profile; empty without a profile.
        """
        if self.departments is None or user_id == self.user_id or self.lists(user_id):
            return True
        return bool(department) and department in self.departments

    def lists(self, user_id: str) -> bool:
        """Whether the caller is restricted to a list that contains `user_id`, in normal form."""
        return self.users is not None and user_id in self.users

    @property
    def names(self) -> frozenset[str]:
        """The users that a restricted credential itself names, whatever their departments."""
        if self.user_id is not None:
            return frozenset({self.user_id})
        return self.users or frozenset()

    def for_members(self) -> Principal:
        """The same caller when it acts for members of its departments, not for itself."""
        return replace(self, user_id=None)

    def scope(self, user_id: str) -> Scope:
        """The data of `user_id`, if this caller may access it.

        Raises:
            NotPermitted: The credential belongs to another user, or is restricted to a list of
                others and to no department.
        """
        if self.user_id is not None and self.user_id != user_id:
            raise user_not_allowed(ANOTHER_USER)
        if self.users is not None and not self.departments and user_id not in self.users:
            raise user_not_allowed(NOT_LISTED)
        return Scope(self.tenant_id, user_id)

    def check_reaches(self, user_id: str, department: str) -> None:
        """Raise NotPermitted if the caller may not act for that user; see `reaches`."""
        if not self.reaches(user_id, department):
            if self.users is not None and not self.departments:
                raise user_not_allowed(NOT_LISTED)
            if self.user_id is not None and not self.departments:
                raise user_not_allowed(ANOTHER_USER)
            raise user_not_allowed(
                "this user is in none of the departments that the credential is bound to; a "
                "credential that may act for every user can assign a department"
            )

    def check_scope(self, scope: str, method: str) -> None:
        """Raise NotPermitted if the caller lacks a scope that a request of this method needs."""
        if scope not in self.scopes:
            raise NotPermitted(
                f"this call needs a credential with scope `{scope}`",
                reason="SCOPE_MISSING",
                metadata={"scope": scope.upper(), "method": method},
            )

    def check_capability(self, capability: str) -> None:
        """Raise NotPermitted if the caller lacks a named right."""
        if capability not in self.capabilities:
            raise NotPermitted(
                f"this call needs a credential with the capability `{capability}`",
                reason="CAPABILITY_MISSING",
                metadata={"capability": capability},
            )

    def check_origin(self, field: str, origin: str) -> None:
        """Raise NotPermitted if a user's credential is to speak for the operator."""
        if origin == "operator" and self.user_id is not None:
            raise NotPermitted(
                "this credential is bound to a person, who cannot speak for the operator: leave"
                " origin unset, or use the credential of a service",
                reason="ORIGIN_NOT_ALLOWED",
                metadata={"field": field},
            )

    def check_department(self, field: str, department: str) -> None:
        """Refuse a department that is none of the caller's.

        Only an unrestricted caller may use none, an empty `department`.

        Raises:
            NotPermitted: The caller is restricted to other departments.
        """
        if self.departments is not None and department not in self.departments:
            raise NotPermitted(
                "this credential is not bound to that department",
                reason="DEPARTMENT_NOT_ALLOWED",
                metadata={"field": field},
            )


def user_not_allowed(why: str, field: str = "user_id") -> NotPermitted:
    """The refusal of a call about a user whom the caller may not act for."""
    return NotPermitted(why, reason="USER_NOT_ALLOWED", metadata={"field": field})


ANONYMOUS = Principal(DEFAULT_TENANT, "anonymous", SCOPES, capabilities=CAPABILITIES)
"""Every caller if authentication is off: loopback with the embedded database."""
