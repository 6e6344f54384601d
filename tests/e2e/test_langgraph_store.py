"""A store of LangGraph that is kept in Hitherto, beside the package's own store."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import pytest

from hitherto_client import Hitherto, HithertoCallError
from hitherto_client.integrations.store_items import item_filter
from tests.e2e.assistants import in_thread
from tests.lazily import Lazily

if TYPE_CHECKING:
    import langgraph.graph as langgraph_graph
    import langgraph.store.base as store_base
    import langgraph.store.memory as memory_store

    from hitherto_client.integrations import langgraph as our_store
else:
    langgraph_graph = Lazily("langgraph.graph")
    store_base = Lazily("langgraph.store.base")
    memory_store = Lazily("langgraph.store.memory")
    our_store = Lazily("hitherto_client.integrations.langgraph")


@pytest.fixture
def memory(blocking: Hitherto) -> Hitherto:
    return blocking


def store(memory: Hitherto, user: str | int = "ana", **options: Any) -> our_store.HithertoStore:
    return our_store.HithertoStore(memory, user=user, **{"index_seconds": 60.0, **options})


def plain(item: Any) -> Any:
    """An item without its times, which no two stores share."""
    return item and (item.namespace, item.key, item.value)


LABELS = ("a", "ab", "a_", "ký ức", "记忆🎉")
"""One begins with another, and one is a pattern of SQL: neither makes them one."""
VALUES: list[dict[str, Any]] = [
    {"text": "Tôi thích cá nướng 🐟", "n": 1, "tags": ["x", "y"], "deep": {"a": {"b": None}}},
    {"text": "我住在上海。", "n": 2.5, "on": True},
    {"text": "cafe\u0301 and café", "n": 2**60, "odd": "\x00\ud800"},
    {"n": -3, "deep": {"a": {"b": [1, 2, {"c": "d"}]}}},
    {},
]
FILTERS: list[dict[str, Any]] = [
    {"n": 1},
    {"n": {"$gte": 1, "$lt": 3}},
    {"n": {"$ne": 1}},
    {"text": {"$eq": "我住在上海。"}},
    {"deep": {"a": {"b": None}}},
    {"tags": ["x", "y"]},
    {"on": True, "n": {"$gt": 2}},
]
CONDITIONS: list[tuple[Literal["prefix", "suffix"], tuple[str, ...]]] = [
    ("prefix", ("a",)),
    ("prefix", ("*", "记忆🎉")),
    ("suffix", ("ký ức",)),
    ("suffix", ("a", "*")),
]


async def test_it_does_what_the_packages_own_does(memory: Hitherto) -> None:
    """The same random operations on LangGraph's InMemoryStore give the same."""
    draw = random.Random(4711)
    ours, theirs = store(memory, index_seconds=0.0), memory_store.InMemoryStore()
    found: list[Any] = []

    def namespace(least: int) -> tuple[str, ...]:
        return tuple(draw.choice(LABELS) for _ in range(draw.randint(least, 2)))

    def step() -> None:
        match draw.randint(0, 9):
            case 0 | 1 | 2 | 3:
                where, key = namespace(1), draw.choice("xyz")
                value = draw.choice([*VALUES, None])
                for one in (ours, theirs):
                    one.batch([store_base.PutOp(where, key, value)])
            case 4 | 5:
                op = store_base.GetOp(namespace(1), draw.choice("xyz"))
                found.append(plain(ours.batch([op])[0]))
                assert found[-1] == plain(theirs.batch([op])[0])
            case 6 | 7:
                wanted = draw.choice([None, *FILTERS])
                if wanted and "n" in wanted and isinstance(wanted["n"], dict):
                    # Theirs fails for items without the number.
                    wanted = {"n": wanted["n"]}
                where = namespace(0)
                op_all = store_base.SearchOp(
                    where, filter=_bearable(theirs, where, wanted), limit=1_000
                )
                mine, yours = (one.batch([op_all])[0] for one in (ours, theirs))
                assert _sorted(mine) == _sorted(yours)
                some = store_base.SearchOp(where, filter=op_all.filter, limit=2, offset=1)
                fewer: list[Any] = [one.batch([some])[0] for one in (ours, theirs)]
                assert len(fewer[0]) == len(fewer[1])
            case _:
                drawn = draw.sample(CONDITIONS, draw.randint(0, 2))
                conditions = tuple(store_base.MatchCondition(*each) for each in drawn)
                depth = draw.choice([None, 1, 2])
                listing = store_base.ListNamespacesOp(
                    conditions, depth, limit=4, offset=draw.randint(0, 2)
                )
                expected = _namespaces(theirs, listing)
                assert ours.batch([listing])[0] == expected

    def steps() -> None:
        for _ in range(160):
            step()

    await in_thread(steps)
    assert 5 < found.count(None) < len(found) - 5


def _sorted(items: Any) -> list[str]:
    return sorted(repr(plain(item)) for item in items)


def _bearable(theirs: memory_store.InMemoryStore, where: tuple[str, ...], wanted: Any) -> Any:
    """The filter, or None where the package's store would compare what is no number."""
    try:
        theirs.batch([store_base.SearchOp(where, filter=wanted, limit=1_000)])
    except TypeError:
        return None
    return wanted


def _namespaces(
    theirs: memory_store.InMemoryStore, listing: store_base.ListNamespacesOp
) -> list[tuple[str, ...]]:
    """Theirs lists namespaces whose items are all deleted, too."""
    everything: Any = theirs.batch([store_base.SearchOp((), limit=1_000)])[0]
    filled = memory_store.InMemoryStore()
    filled.batch([store_base.PutOp(item.namespace, item.key, item.value) for item in everything])
    listed: Any = filled.batch([listing])[0]
    return list(listed)


async def test_one_batch_reads_before_it_writes(memory: Hitherto) -> None:
    """As in the package's store; the last write of an item counts."""
    batch: list[store_base.Op] = [
        store_base.PutOp(("a",), "x", {"n": 1}),
        store_base.GetOp(("a",), "x"),
        store_base.PutOp(("a",), "x", {"n": 2}),
        store_base.SearchOp(("a",)),
    ]

    def steps(one: store_base.BaseStore) -> None:
        assert one.batch(batch) == [None, None, None, []]
        assert plain(one.get(("a",), "x")) == (("a",), "x", {"n": 2})

    for one in (store(memory), memory_store.InMemoryStore()):
        await in_thread(functools.partial(steps, one))


async def test_items_are_found_by_meaning_and_words(memory: Hitherto) -> None:
    """At once after the write, best first, however little it says; the rest has no score."""
    ours = store(memory)
    texts = {
        "food": "Ana thích cá nướng 🐟 và bún bò",
        "home": "Ana lives in a small house in Porto",
        "work": "安娜在上海的一家银行工作",
        "pet": "Her cat 🐈‍⬛ is called Mimi",
    }

    def steps() -> None:
        for key, text in texts.items():
            ours.put(("memories", "facts"), key, {"text": text, "kind": key})
        ours.put(("memories", "hidden"), "secret", {"text": "Porto house"}, index=False)
        ours.put(("memories", "partly"), "p", {"text": "nothing", "title": "harbour"}, ["title"])
        for query, key in (
            ("cá nướng", "food"),
            ("house in Porto", "home"),
            ("上海 银行", "work"),
            ("cat 🐈‍⬛", "pet"),
        ):
            found = ours.search(("memories",), query=query, limit=6)
            assert found[0].key == key
            assert found[0].score is not None
            assert len({(item.namespace, item.key) for item in found}) == len(found) == 6
            scores = [item.score for item in found if item.score is not None]
            assert len(scores) == 5
            assert scores == sorted(scores, reverse=True)
            assert "secret" not in [item.key for item in found if item.score is not None]
        (only,) = ours.search(("memories",), query="house in Porto", filter={"kind": "pet"})
        assert only.key == "pet"
        assert ours.search(("memories", "partly"), query="harbour")[0].score is not None
        assert ours.search(("other",), query="Porto") == []
        # What a store keeps is known to the assistant, too.
        assert "Porto" in memory.get_context("ana", "Where is Ana's house?").prompt_block

    await in_thread(steps)


async def test_many_items_are_paged(memory: Hitherto) -> None:
    ours = store(memory, index_seconds=0.0)
    keys = [f"key-{number:03}" for number in range(230)]

    def steps() -> None:
        ours.batch([store_base.PutOp(("a",), key, {"n": n}) for n, key in enumerate(keys)])
        found = [
            item.key
            for at in range(0, 300, 50)
            for item in ours.search(("a",), limit=50, offset=at)
        ]
        assert sorted(found) == keys
        (last,) = ours.search(("a",), filter={"n": {"$gte": 229}})
        assert last.key == "key-229"

    await in_thread(steps)


async def test_a_label_names_the_user(memory: Hitherto) -> None:
    """Users never mix, at once; what is across users is refused."""
    ours = store(memory, user=1)
    users = [f"user-{number}" for number in range(6)]

    def use(user: str) -> None:
        for number in range(3):
            text = f"{user} says {number}"
            ours.put(("memories", user), f"k{number}", {"text": text})
        found = ours.search(("memories", user), query="says", limit=20)
        assert {item.value["text"].split()[0] for item in found} == {user}
        assert len(found) == 3
        assert ours.list_namespaces(prefix=("memories", user)) == [("memories", user)]

    await asyncio.gather(*(in_thread(functools.partial(use, user)) for user in users))
    listed = await in_thread(lambda: list(memory.documents(users[0])))
    assert len(listed) == 3
    across: list[Callable[[], Any]] = [
        lambda: ours.search(("memories",)),
        lambda: ours.search((), query="says"),
        lambda: ours.get(("memories",), "k"),
        lambda: ours.put(("memories",), "k", {}),
        ours.list_namespaces,
        lambda: ours.list_namespaces(prefix=("memories", "*")),
    ]
    for operation in across:
        with pytest.raises(ValueError, match="across users"):
            await in_thread(operation)


async def test_what_cannot_be_is_refused(memory: Hitherto) -> None:
    ours = store(memory)
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (ValueError, lambda: ours.put(("a",), "x", {}, ttl=float("nan"))),
        (store_base.InvalidNamespaceError, lambda: ours.batch([store_base.GetOp(("a.b",), "x")])),
        (TypeError, lambda: ours.put(("a",), "x", {"no": object()})),
        (ValueError, lambda: ours.put(("a",), "x", {"no": float("nan")})),
        (ValueError, lambda: ours.put(("a",), "x", {"long": "大" * 10_000})),
    ]
    for error, operation in refused:
        with pytest.raises(error):
            await in_thread(operation)
    assert await in_thread(lambda: ours.search(())) == []
    await in_thread(lambda: ours.put(("a",), "x", {"n": 1}))
    with pytest.raises(ValueError, match=r"\$regex"):
        await in_thread(lambda: ours.search((), filter={"n": {"$regex": "x"}}))
    await in_thread(lambda: memory.update_user_settings("ana", memory_enabled=False))
    with pytest.raises(HithertoCallError) as off:
        await in_thread(lambda: ours.put(("a",), "x", {}))
    assert off.value.reason == "MEMORY_DISABLED"
    nowhere = Hitherto("127.0.0.1:1", "127.0.0.1:1", timeout=1)
    with nowhere, pytest.raises(HithertoCallError):
        await in_thread(lambda: store(nowhere).get(("a",), "x"))


async def test_items_expire(memory: Hitherto) -> None:
    """As the package says: in minutes, from the last write, the default for puts without a ttl."""
    ours = store(memory, ttl={"default_ttl": 600.0})

    def ends() -> dict[str, Any]:
        kept = {doc.metadata["langgraph"]: doc.expires_at for doc in memory.documents("ana")}
        return {json.loads(whole)["key"]: end for whole, end in kept.items()}

    def steps() -> None:
        assert ours.supports_ttl
        text = {"text": "harbour of Porto"}
        ours.put(("a",), "short", text, ttl=0.0)
        ours.put(("a",), "long", text, ttl=1e12)
        ours.put(("a",), "default", text)
        ours.put(("a",), "kept", text, ttl=None)
        assert ours.get(("a",), "short") is None
        for query in (None, "harbour of Porto"):
            keys = {item.key for item in ours.search(("a",), query=query)}
            assert keys == {"long", "default", "kept"}
        assert ends()["kept"] is None
        ours.put(("a",), "short", text, ttl=5)
        assert plain(ours.get(("a",), "short")) == (("a",), "short", text)
        ours.put(("b",), "gone", text, ttl=0.0)
        assert ours.list_namespaces() == [("a",)]
        # A write without an end takes it away.
        ours.put(("a",), "default", text, ttl=None)
        assert ends()["default"] is None

    await in_thread(steps)


async def test_reads_restart_the_time_to_live(memory: Hitherto) -> None:
    """By default, as configured, and as the call says; nothing else about the item changes."""

    def end(key: str) -> Any:
        (document,) = memory.documents("ana", metadata_filter=item_filter(("a",), key))
        return document.expires_at

    def steps() -> None:
        ours, still = store(memory), store(memory, ttl={"refresh_on_read": False})
        # Items keep their times.
        ours.put(("b",), "x", {"n": 1})
        one = ours.get(("b",), "x")
        ours.put(("b",), "x", {"n": 2})
        two = ours.get(("b",), "x")
        assert one is not None
        assert two is not None
        assert one.created_at == one.updated_at == two.created_at < two.updated_at
        (found,) = ours.search(("b",), query="2")
        assert (found.created_at, found.updated_at) == (two.created_at, two.updated_at)
        ours.put(("a",), "x", {"text": "harbour"}, ttl=60)
        ours.put(("a",), "y", {"text": "harbour"})
        first, before = end("x"), ours.get(("a",), "x", refresh_ttl=False)
        still.get(("a",), "x")
        still.search(("a",), query="harbour")
        assert end("x") == first
        assert ours.get(("a",), "x") == before
        second = end("x")
        assert second > first
        ours.search(("a",), query="harbour")
        third = end("x")
        assert third > second
        still.search(("a",), refresh_ttl=True)
        assert end("x") > third
        assert end("y") is None
        # Another's write meanwhile is not undone: a refresh changes no content.
        ours.put(("a",), "x", {"text": "station"}, ttl=60)
        assert ours.search(("a",), query="station")[0].value == {"text": "station"}

    await in_thread(steps)


class State(TypedDict):
    said: str
    user: str
    answers: Annotated[list[str], lambda old, new: old + new]


async def test_a_graph_remembers_between_its_threads(memory: Hitherto) -> None:
    """LangGraph gives the store to a node; one run writes what another one finds."""

    # The graph reads the annotation, to see that the node wants its store.
    from langgraph.store.base import BaseStore

    async def answer(state: State, *, store: BaseStore) -> dict[str, Any]:
        namespace = ("memories", state["user"])
        found = await store.asearch(namespace, query=state["said"], limit=3)
        await store.aput(namespace, state["said"].replace(".", ""), {"text": state["said"]})
        return {"answers": [item.value["text"] for item in found]}

    graph = langgraph_graph.StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(langgraph_graph.START, "answer")
    graph.add_edge("answer", langgraph_graph.END)

    async def run(user: str, said: str) -> list[str]:
        compiled = graph.compile(store=store(memory, user=1))
        state = await compiled.ainvoke({"said": said, "user": user, "answers": []})
        return list(state["answers"])

    assert await run("ana", "I live in Porto.") == []
    assert await run("bea", "Where do I live?") == []
    assert await run("ana", "Where do I live?") == ["I live in Porto."]
