"""Putting cost on the bill and asking what is on it, for the end-to-end tests."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg

from hitherto.v1 import maintenance_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.tenants import tenant_of

USER, KIND, DAY, MODEL = (
    pb.USAGE_DIMENSION_USER,
    pb.USAGE_DIMENSION_KIND,
    pb.USAGE_DIMENSION_DAY,
    pb.USAGE_DIMENSION_MODEL,
)
CHAT_COST = 100 * 0.15e-6 + 20 * 0.60e-6
"""What the scripted model's usual answer costs as gpt-4o-mini."""
_SPEND = """
INSERT INTO usage_ledger (tenant_id, user_id, day, job_id, stage, model, kind, calls, input_tokens,
                          output_tokens, cost_usd)
VALUES (%s, %s, (now() AT TIME ZONE 'UTC')::date - %s::integer, %s, %s, %s, %s, 1, 10, 2, %s)
"""


def spend(
    conninfo: str,
    usd: float,
    *,
    user: str = "ana",
    days_ago: int = 0,
    kind: str = "memory-extraction",
    stage: str = "extraction",
    model: str = "gpt-4o-mini",
    tenant: str | None = None,
) -> None:
    """Put a call of ten tokens in and two out on the bill."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(
            _SPEND.encode(),
            (tenant or tenant_of(conninfo), user, days_ago, uuid4(), stage, model, kind, usd),
        )


async def usage(services: Services, *by: Any, **more: Any) -> pb.GetUsageResponse:
    """The cost of the tenant by some dimensions; `more` are other fields of the request."""
    return await services.maintenance.GetUsage(pb.GetUsageRequest(group_by=by, **more))
