"""The phases of re-embedding: start, switch, roll back, and the present state."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage import reembedding
from hitherto_extraction.storage.reembedding import EmbeddingModel
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.active_embedder import register_model
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.errors import TooLate, WrongState, invalid
from hitherto_shared.models import Job

KIND = "reembedding"
LEFT_OVER = 64
"""Texts that may still lack a vector at a switch: those of the last moments. They are found by
their words until the regular back-fill has embedded them."""

logger = logging.getLogger("hitherto.reembedding")

_LOOK_SECONDS = 5.0
_BEGIN_SECONDS = 4.0
"""Time limit of beginning a change at the start of a service; below `lock_timeout`. Registering the
model may read all vectors (`register_model`)."""


@dataclass(frozen=True, slots=True)
class ReembeddingStatus:
    """The state of re-embedding."""

    active: EmbeddingModel | None
    target: EmbeddingModel | None
    embedded: int = 0
    pending: int = 0
    job: Job | None = None


async def standing(connection: Connection) -> ReembeddingStatus:
    """The present state, without counts."""
    known = await reembedding.models(connection)
    active, target = known.get("active"), known.get("target")
    if target is None:
        return ReembeddingStatus(active, None)
    return ReembeddingStatus(
        active, target, job=await jobs.latest_backfill(connection, target.name)
    )


async def counted(connection: Connection, found: ReembeddingStatus) -> ReembeddingStatus:
    """The same state with counts, which read every text's key."""
    if found.target is None:
        return found
    embedded, pending = await reembedding.count(connection, found.target.name)
    return replace(found, embedded=embedded, pending=pending)


async def start(
    connection: Connection,
    tenant_id: str,
    model: str,
    dimensions: int,
    queue: JobQueue,
    *,
    switch: bool = False,
) -> Job:
    """Queue the back-fill of a model, or return the one in progress.

    The caller's tenant owns the job; the vectors are everybody's. If `switch`, the job activates
    the model when it is done.

    Raises:
        InvalidRequest: It is the active model, or its vectors have other dimensions, or an
            unfinished back-fill gives them others.
    """
    # Registering may read all vectors, and their writers wait for the lock.
    registered = await register_model(connection, model, dimensions)
    active = (await reembedding.models(connection, lock=True)).get("active")
    if active is not None and active.name == model:
        raise invalid("model", "is already the active model: there is nothing to change")
    if registered != dimensions:
        raise invalid(
            "dimensions", f"vectors of this model are stored with {registered} dimensions here"
        )
    await reembedding.set_target(connection, model)
    job = await jobs.latest_backfill(connection, model)
    if job is not None and not job.final:
        if job.params["dimensions"] != dimensions:
            raise invalid(
                "dimensions",
                f"a back-fill with {job.params['dimensions']} dimensions is not finished: cancel "
                f"its job {job.job_id} first",
            )
        return job
    return await queue.enqueue(
        connection,
        tenant_id,
        KIND,
        params={"model": model, "dimensions": dimensions, "switch": switch},
    )


async def switch(connection: Connection) -> None:
    """Make the target the active model. In a transaction.

    Raises:
        WrongState: There is no target, or its back-fill is not complete.
    """
    # Counted without the lock, for which writers of vectors wait.
    counted = await _target(connection)
    _, pending = await reembedding.count(connection, counted.name)
    target = await _target(connection, lock=True)
    if target != counted:
        raise _not_ready("another change began meanwhile: call Reembed with STATUS", pending)
    job = await jobs.latest_backfill(connection, target.name)
    refused = int(job.result.get("counts", {}).get("refused", 0)) if job is not None else 0
    if job is None or job.state != "succeeded" or pending - refused > LEFT_OVER:
        raise _not_ready(
            "the back-fill is not complete: wait for its job, or START again to catch up", pending
        )
    await reembedding.activate(connection, target.name, keep_previous=True)


async def switch_to(connection: Connection, model: str, *, left: int) -> None:
    """Make a model active at the end of its back-fill, unless another one is the target by now.

    In a transaction. `left` texts lack a vector, as counted before: writers of vectors wait.

    Raises:
        WrongState: These are too many: they came during the back-fill.
    """
    target = (await reembedding.models(connection, lock=True)).get("target")
    if target is None or target.name != model:
        logger.info("the model %s is back-filled, and no longer the one to switch to", model)
        return
    if left > LEFT_OVER:
        raise _not_ready("many texts came during the back-fill: it goes on with them", left)
    await reembedding.activate(connection, model, keep_previous=True)


async def _target(connection: Connection, *, lock: bool = False) -> EmbeddingModel:
    target = (await reembedding.models(connection, lock=lock)).get("target")
    if target is None:
        raise _not_ready("no model is being back-filled: call Reembed with START first", 0)
    return target


async def go_back(connection: Connection) -> None:
    """Activate the model before the last switch again. In a transaction.

    Raises:
        WrongState: There was no switch.
    """
    previous = (await reembedding.models(connection, lock=True)).get("previous")
    if previous is None:
        raise _not_ready("there is no earlier model to return to", 0)
    await reembedding.activate(connection, previous.name, keep_previous=False)


def _not_ready(message: str, pending: int) -> WrongState:
    return WrongState(
        message, reason="REEMBEDDING_NOT_READY", metadata={"pending_count": str(pending)}
    )


async def move_to_configured(
    database: Database, embedders: Embedders, queue: JobQueue, *, tenant_id: str, by_itself: bool
) -> None:
    """Back-fill the configured model and switch to it, or log how to do so.

    `tenant_id` is the operator's, which can then see the job. `by_itself` starts the job (for the
    embedded database, which has no other users); otherwise the call to make is logged.
    """
    configured = embedders.configured
    known = await database.run(reembedding.models, timeout=_LOOK_SECONDS, repeatable=True)
    active = known.get("active")
    if active is None or active.name == configured.name:
        return
    if not by_itself:
        logger.warning(
            "memories are embedded with %s and the configuration names %s: `hitherto reembed start "
            "%s`, then `hitherto reembed switch`, moves to it",
            active.name,
            configured.name,
            configured.name,
        )
        return
    try:
        job = await database.transact(
            lambda connection: start(
                connection,
                tenant_id,
                configured.name,
                configured.dimensions,
                queue,
                switch=True,
            ),
            timeout=_BEGIN_SECONDS,
        )
    except TooLate:
        logger.warning(
            "the change of the embedding model from %s to %s did not begin within %.0f s: the next "
            "start tries again, or run `hitherto reembed start %s` and then `hitherto reembed "
            "switch`",
            active.name,
            configured.name,
            _BEGIN_SECONDS,
            configured.name,
        )
        return
    logger.info(
        "changing the embedding model from %s to %s: job %s back-fills, then switches",
        active.name,
        configured.name,
        job.job_id,
    )
