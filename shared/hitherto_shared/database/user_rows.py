"""The rows of one user, as a storage function sees them.

Every statement about a user names the tenant and the user (`Scope`). Here they are bound to each
statement, so that no function has to pass them on beside its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import TupleRow

from hitherto_shared.database.exchange import StatementResult
from hitherto_shared.models import Scope

if TYPE_CHECKING:
    from hitherto_shared.database.pipeline_connection import PipelineConnection, Query

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Encryption:
    """Whether sensitive text of a user is to be sealed from now on.

    `key_id` is the key with which it was last turned on; None: never, and nothing is sealed.
    """

    on: bool
    key_id: str | None


@dataclass(slots=True)
class UserRows:
    """A connection on which statements about one user run.

    Each method is that of the connection; its parameters are those of the statement, besides
    `tenant_id` and `user_id`.

    `connection` is in a transaction of the caller if there is one. `encryption` is what the user
    has decided, noted by whoever reads or locks the user's row; None: not read yet.
    """

    connection: PipelineConnection
    scope: Scope
    encryption: Encryption | None = None

    def execute(self, statement: Query, /, **values: Any) -> Coroutine[Any, Any, StatementResult]:
        """Run a statement."""
        return self.connection.execute(statement, self._bound(values))

    def later(self, statement: str, /, **values: Any) -> Coroutine[Any, Any, None]:
        """Defer a statement to the next one."""
        return self.connection.later(statement, self._bound(values))

    def later_for_each(
        self, statement: str, many: Iterable[Mapping[str, Any]]
    ) -> Coroutine[Any, Any, None]:
        """Defer a statement for each of many sets of parameters."""
        return self.connection.later_for_each(
            statement, [self.scope.bind(**values) for values in many]
        )

    def fetch(
        self, make: Callable[..., Made], statement: Query, /, **values: Any
    ) -> Coroutine[Any, Any, list[Made]]:
        """What `make` returns for each row."""
        return self.connection.fetch(make, statement, self._bound(values))

    def fetch_one(
        self, make: Callable[..., Made], statement: Query, /, **values: Any
    ) -> Coroutine[Any, Any, Made | None]:
        """What `make` returns for the first row; None if there is none."""
        return self.connection.fetch_one(make, statement, self._bound(values))

    def fetch_rows(self, statement: Query, /, **values: Any) -> Coroutine[Any, Any, list[TupleRow]]:
        """All rows."""
        return self.connection.fetch_rows(statement, self._bound(values))

    def fetch_row(self, statement: Query, /, **values: Any) -> Coroutine[Any, Any, TupleRow | None]:
        """The first row; None if there is none."""
        return self.connection.fetch_row(statement, self._bound(values))

    def fetch_values(self, statement: Query, /, **values: Any) -> Coroutine[Any, Any, list[Any]]:
        """The first column of each row."""
        return self.connection.fetch_values(statement, self._bound(values))

    def fetch_value(self, statement: Query, /, **values: Any) -> Coroutine[Any, Any, Any]:
        """The first column of the first row; None if there is none."""
        return self.connection.fetch_value(statement, self._bound(values))

    def _bound(self, values: dict[str, Any]) -> dict[str, Any]:
        return self.scope.bind(**values)
