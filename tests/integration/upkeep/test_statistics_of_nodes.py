"""The tables of a cluster are analysed on each node, whatever becomes of another one.

One server is taken for the coordinator here; `e2e/test_citus.py` asks real nodes.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from hitherto_extraction.upkeep.table_statistics import TableStatistics
from hitherto_shared.database import pipeline_connection
from tests.integration.upkeep.stage import Stage, staged

_NODES = """
CREATE TABLE grown (shard text);
INSERT INTO grown VALUES ('memories_102009');
CREATE FUNCTION run_command_on_all_nodes(
    command text, OUT nodeid integer, OUT success boolean, OUT result text)
RETURNS SETOF record LANGUAGE sql SECURITY DEFINER SET search_path = hitherto AS $$
    WITH analysed AS (DELETE FROM grown RETURNING shard)
    SELECT 1, true, '' UNION ALL SELECT 2, true, shard FROM analysed
    UNION ALL SELECT 3, false, E'ERROR:  no room\nDETAIL:  Ana lives in Porto'
$$
"""
_FAIL = """
CREATE OR REPLACE FUNCTION analyse_grown() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE query_canceled;
END
$$
"""


@pytest.fixture
async def coordinator(
    conninfo: str, superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    monkeypatch.setattr(pipeline_connection, "_ON_CITUS", "SELECT 1")
    monkeypatch.setattr(pipeline_connection, "_ON_NODES", "SELECT 1")
    async with staged(conninfo, superuser_conninfo) as ready:
        await ready.admin.execute(_NODES)
        yield ready


@pytest.mark.parametrize("also_here", [False, True])
async def test_a_node_that_fails_is_named_and_holds_up_no_other(
    coordinator: Stage, caplog: pytest.LogCaptureFixture, also_here: bool
) -> None:
    if also_here:
        await coordinator.admin.execute(_FAIL)
    with caplog.at_level(logging.INFO, logger="hitherto.extraction"):
        await TableStatistics(coordinator.maintenance).refresh(60.0)
    told = [
        (each.getMessage(), *(vars(each).get(fact) for fact in ("table", "node", "said")))
        for each in caplog.records
        if each.name == "hitherto.extraction"
    ]
    failed = ("a node's tables are analysed later", None, 3, "ERROR:  no room")
    assert ("analysed a table", "memories_102009", 2, None) in told
    # Asked again with the next round, so that it keeps nobody waiting.
    assert told.count(failed) == 1
    assert also_here == ("tables are analysed later: " in caplog.text)
