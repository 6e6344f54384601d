"""How an application uses the client, right and wrong: mypy judges both in `make lint`."""

from __future__ import annotations

from datetime import datetime

from hitherto_client import AsyncHitherto, Hitherto, HithertoCallError
from hitherto_client.inputs import MessageInput
from hitherto_client.results import Memory


def blocking(m: Hitherto) -> list[Memory]:
    saved: Memory = m.save_memory("ana", "Ana lives in Porto.", type="fact").memory
    block: str = m.get_context("ana", "Where does she live?", max_tokens=500).prompt_block
    said: list[MessageInput] = [{"role": "user", "content": block}]
    m.add("ana", said, conversation="c1")
    m.add("ana", [{"role": "assistant", "content": "Hello!"}], conversation="c1")
    for result in m.search("ana", "Porto", scopes=["memories"], as_of=datetime(2026, 1, 1)):
        score: float = result.score
        assert score
    try:
        m.forget_memory("ana", saved.id)
    except HithertoCallError as error:
        wait: float | None = error.retry_after
        print(error.reason, wait)
    if profile := m.get_profile("ana"):
        assert profile.summary
    return [memory for memory in m.memories("ana", types=["goal"]) if memory.status == "achieved"]


def operating(m: Hitherto) -> list[str]:
    page = m.jobs(states=["dead"]).page()
    total: int | None = page.total_size
    costs: list[float] = [row.usage.cost_usd for row in m.get_usage(group_by=["day"]).rows]
    counts: dict[str, int] = m.run_decay(dry_run=True).counts
    return [job.error for job in page.items if total and costs and counts]


async def waiting(m: AsyncHitherto) -> str:
    job = await m.wait_for_job(await m.end_conversation("ana", "c1"), timeout=60)
    contents: list[str] = [memory.content async for memory in m.memories("ana")]
    first = await m.memories("ana").page()
    return job.error or contents[0] or first.items[0].content


async def refused(m: Hitherto, waiting: AsyncHitherto, memory: Memory) -> None:
    """What mypy must refuse: an `ignore` that ignores nothing is an error of `make lint`."""
    m.save_memory("ana", "x", type="gaol")  # type: ignore[arg-type]
    m.get_context("ana", "x", max_tokens="500")  # type: ignore[arg-type]
    m.get_context("ana", "x", max_token=500)  # type: ignore[call-arg]
    m.add("ana", [{"role": "boss", "content": "x"}], conversation="c1")  # type: ignore[typeddict-item]
    m.add("ana", [{"role": "user", "text": "x"}], conversation="c1")  # type: ignore[typeddict-item, typeddict-unknown-key]
    m.add("ana", [{"role": "user", "content": "x"}], chat="c1")  # type: ignore[call-arg]
    m.search("ana", "x", scopes=["memory"])  # type: ignore[list-item]
    m.search("ana", "x", as_of="2026-01-01")  # type: ignore[arg-type]
    m.forget_memory("ana", memory)  # type: ignore[arg-type]
    print(m.search("ana", "x")[0].rank)  # type: ignore[attr-defined]
    memory.content = "x"  # type: ignore[misc]
    print(m.get_profile("ana").summary)  # type: ignore[union-attr]
    print(memory.status == "done")  # type: ignore[comparison-overlap]
    await waiting.wait_for_job(waiting.end_conversation("ana", "c1"))  # type: ignore[arg-type]
    print(m.get_job("j").failure)  # type: ignore[attr-defined]
    m.jobs(states=["died"])  # type: ignore[list-item]
    m.get_usage(group_by=["week"])  # type: ignore[list-item]
    total: int = m.jobs().page().total_size  # type: ignore[assignment]
    print(total, m.memories("ana").page().items[0].text)  # type: ignore[attr-defined]
    print(waiting.memories("ana").page().items)  # type: ignore[attr-defined]
