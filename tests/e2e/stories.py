"""Stories of what is known of Ana: acts of conversations and of hands, and what is told then.

A story is its title, and below it acts that end with their line or a semicolon. An act of which
there are several, parted by `|`, makes a story of each. Names in capitals stand for `WORDS`.

    conversation 3: MEAT            said on the third day, and learnt word for word
    conversation now: Forget: MEAT  a request to forget, or `No longer`, `Over`, `Reached`
    conversation 3: ROME instead of: OSLO   or `perhaps instead of`, `rewording`
    will doubt COMMUTE because ROME         what the next reconciliation does; `settle` awaits it
    told: MEAT NONE                 the current memories of `WORDS`, each as often as there is one
    MEAT of first again             the conversations of its sources
    remember MEAT; MEAT as before   the same memory, in the same words, of the same sources
    BAKES stands for PIES BUNS      what it supersedes; the one remembered, if one is
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import Any

import pytest

from hitherto.v1 import memory_pb2, search_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import APPROVE, forget, restore, review, save
from tests.e2e.learning import ALL_STATUSES, learn, memories, shown, talk
from tests.e2e.merging import STYLE, all_into, consolidate, merged_memory
from tests.e2e.methods import ask
from tests.e2e.reconciling import (
    Settling,
    doubting,
    jobs,
    joining,
    named,
    nothing,
    replacing,
    settled,
)
from tests.e2e.reconciling import script as reconciled
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change
from tests.scripted_model.answers import memory as new_memory

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SWEETS = {each.upper(): f"Ana bakes {each}" for each in ("cakes", "pies", "buns", "rolls", "tarts")}
WORDS = {
    "MEAT": "Ana avoids meat",
    "NONE": "Ana does not eat any meat",
    "VEGETARIAN": "Ana is a vegetarian",
    **SWEETS,
    "BAKES": "Ana bakes all kinds of sweets",
    "FRIENDS": "Ana bakes all kinds of sweets for friends",
    "RARELY": "Ana bakes sweets only rarely now",
    "BREAD": "Ana bakes bread",
    **{town.upper(): f"Ana lives in {town}" for town in ("Oslo", "Rome", "Bern")},
    "FLAT": "Ana's home is in Rome now",
    "COMMUTE": "Ana's commute to the university takes 12 minutes by bike",
    "ROAD": "Ana needs 12 minutes for the road to the university",
    "BIKES": "Ana bikes to the university, a commute of 12 minutes",
    "BUS": "Ana goes by bus",
    "STEAK": "Ana eats steak again",
    "VIM": "Ana's favourite editor is Vim",
    "ZED": "Ana's favourite editor is Zed",
    "VIMS": "Vim is the editor that Ana likes best",
    "ZEDS": "Zed is the editor that Ana likes best",
    "GOAL": "Ana wants to keep bees",
}
MERGED = "; ".join([*(f"{each.lower()} {day}: {each}" for day, each in enumerate(SWEETS)), "merge"])
"""Five conversations say what is merged into BAKES."""
_CHANGED = "Ana has changed"
_CAUSES = [f"Ana's friend number {n} is called Friend{n}" for n in range(9)]
"""Of what nothing else speaks: saving it sets a reconciliation off."""
_LISTS = {
    "Forget": "forgotten_memories",
    "No longer": "contradicted_memories",
    "Over": "contradicted_memories",
    "Reached": "achieved_goals",
}


def stories(*texts: str) -> pytest.MarkDecorator:
    """One test for each story of these texts, or each way of it."""
    found = []
    for block in re.split(r"\n(?=\S)", "\n".join(dedent(text).strip() for text in texts)):
        title, _, body = block.partition(":\n")
        acts = [act.split("|") for act in re.split(r"[;\n]", body) if act.strip()]
        ways = max(map(len, acts))
        for way in range(ways):
            told = [(act[way] if len(act) > 1 else act[0]).strip() for act in acts]
            name = title if ways == 1 else f"{title} ({way + 1})"
            found.append(pytest.param([act for act in told if act], id=name.replace(" ", "_")))
    return pytest.mark.parametrize("story", found)


def words_of(text: str) -> str:
    """A text with the words that its names stand for."""
    return re.sub(r"\b[A-Z]{3,}\b", lambda found: WORDS[found[0]], text)


def learning(request: ChatRequest) -> Mapping[str, Any]:
    """What a model makes of a message: see the acts of a story."""
    (said,) = request.messages
    text, by = said.content, said.local_id
    verb, _, words = text.partition(": ")
    if verb in _LISTS:
        known = change(shown(request, words), text, by)
        if verb == "No longer":
            new = {"new_memories": [new_memory(_CHANGED, [by])]}
            return {**new, _LISTS[verb]: [{**known, "by": 0}]}
        return {_LISTS[verb]: [{**known, "by": None} if verb != "Forget" else known]}
    said_of = re.fullmatch(r"(.+?)( perhaps)? (instead of|rewording)", verb)
    content, *tags = (said_of[1] if said_of else verb).rstrip("!").split(" #")
    if said_of and said_of[3] == "rewording":
        return {"updated_memories": [change(shown(request, words), text, by, content=content)]}
    tags += [STYLE] if content in SWEETS.values() else []
    type_ = "goal" if content == WORDS["GOAL"] else "fact"
    learnt: dict[str, Any] = {"new_memories": [new_memory(content, [by], tags=tags, type=type_)]}
    if said_of:
        quote = "words that nobody said" if said_of[2] else text
        learnt["contradicted_memories"] = [change(shown(request, words), quote, by, by=0)]
    return learnt


class Teller:
    """Lets stories happen to Ana, and looks whether they end as they should."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.settling: Settling = nothing
        self.counts: Mapping[str, int] = {}
        self.times: dict[str, datetime] = {}
        self.jobs: dict[str, str] = {}
        self.asked = 0
        self.merged_id = ""
        self.known: dict[str, memory_pb2.Memory] = {}
        self._gone: dict[str, str] = {}
        self._causes = iter(_CAUSES)
        services.model.script = self._answer

    def _answer(self, request: ChatRequest) -> ChatAnswer:
        if request.consolidation:
            return ChatAnswer.of(memories=list(all_into(WORDS["BAKES"], type="fact")(request)))
        self.asked += request.reconciliation
        return reconciled(self.settling, learning)(request)

    async def tell(self, story: str | Sequence[str]) -> None:
        """All acts of a story; a failure names the act."""
        for act in story.split("; ") if isinstance(story, str) else story:
            try:
                await self._do(act)
            except Exception as error:
                error.add_note(f"at: {act}")
                raise

    async def _do(self, act: str) -> None:
        for pattern, does in _ACTS.items():
            if found := re.fullmatch(pattern, act):
                return await does(self, *found.groups())
        raise ValueError("there is no such act")

    async def held(self, name: str) -> list[memory_pb2.Memory]:
        """The memories with these words, whatever their status."""
        every = await memories(self.services, statuses=ALL_STATUSES)
        return [each for each in every if each.content == WORDS[name]]

    async def one(self, name: str) -> memory_pb2.Memory:
        """The one memory with these words: a current one, or else whatever its status."""
        current = [e for e in await memories(self.services) if e.content == WORDS[name]]
        (found,) = current or await self.held(name)
        return found

    # --- acts ---

    async def say(self, conversation: str, when: str, text: str) -> None:
        at = self.times.get(when) or (
            datetime.now(UTC) if when == "now" else NOON + timedelta(days=int(when))
        )
        self.times[conversation] = at
        said = talk(words_of(text), conversation=conversation, at=at)
        said.messages[0].id = f"{conversation}-{when}"
        self.counts = (await learn(self.services, said)).counts

    async def forget(self, name: str) -> None:
        self._gone[name] = (await self.one(name)).id
        await forget(self.services, self._gone[name])

    async def restore(self, name: str) -> None:
        memory_id = self._gone.pop(name, "")
        if not memory_id:
            current = {each.id for each in await memories(self.services)}
            held = await self.held(name)
            (memory_id,) = [e.id for e in held if e.id not in current] or [e.id for e in held]
        await restore(self.services, memory_id)

    async def save(self, name: str, origin: str | None) -> None:
        given = {"origin": memory_pb2.Origin.Value(f"ORIGIN_{origin.upper()}")} if origin else {}
        await save(self.services, WORDS[name], **given)
        self.counts = (await settled(self.services)).counts

    async def correct(self, name: str, into: str, along: str | None) -> None:
        asked = {"memory": {"content": WORDS[into]}, "update_mask": {"paths": ["content"]}}
        asked |= {"memory_id": (await self.one(name)).id, "carry_along": bool(along)}
        await ask(self.services, "UpdateMemory", **asked)

    async def clear(self) -> None:
        self.counts = (await ask(self.services, "ClearMemories")).counts

    async def merge(self) -> None:
        self.jobs["merge"] = (await consolidate(self.services, tag=STYLE)).id
        self.merged_id = (await merged_memory(self.services)).id

    async def undo(self) -> None:
        await ask(self.services, "UndoConsolidation", memory_id=self.merged_id)

    async def will_doubt(self, names: str, because: str) -> None:
        def settling(request: ChatRequest) -> Mapping[str, Any]:
            each = [doubting(WORDS[name], WORDS[because])(request) for name in names.split()]
            return {"doubtful": [item for found in each for item in found["doubtful"]]}

        self.settling = settling

    async def will_replace(self, old: str, new: str) -> None:
        self.settling = replacing(WORDS[old], WORDS[new])

    async def settle(self) -> None:
        self.counts = (await settled(self.services)).counts
        self.jobs["job"] = (await jobs(self.services))[0].id
        self.settling = nothing

    async def name_job(self, name: str) -> None:
        self.jobs[name] = self.jobs["job"]

    async def _settle(self, settling: Settling) -> None:
        """Let a reconciliation do something, set off by saving something else."""
        self.settling, before = settling, self.asked
        await save(self.services, next(self._causes))
        await self.settle()
        assert self.asked > before

    async def doubt(self, names: str, because: str) -> None:
        await self.will_doubt(names, because)
        await self._settle(self.settling)

    async def join(self, vainly: str | None, others: str, keep: str) -> None:
        await self._settle(joining(WORDS[keep], *(WORDS[other] for other in others.split())))
        kept = "" if vainly else (await self.one(keep)).id
        for other in others.split():
            self.jobs["join"] = self.jobs[f"join of {other}"] = self.jobs["job"]
            await self.status(other, "active" if vainly else "superseded")
            assert (await self.one(other)).superseded_by == kept

    async def replace(self, old: str, new: str) -> None:
        await self._settle(replacing(WORDS[old], WORDS[new]))

    async def call_certain(self, name: str) -> None:
        await self._settle(lambda request: {"certain": [named(request, WORDS[name])]})

    async def approve(self, name: str, reason: str | None) -> None:
        await review(self.services, (await self.one(name)).id, APPROVE, reason=reason or "")

    async def mark(self) -> None:
        self.times["mark"] = datetime.now(UTC)

    async def take_back(self, source: str) -> None:
        which: dict[str, Any] = {"conversation_id": source}
        if source.startswith("the "):
            which = {"job_id": self.jobs[source.removeprefix("the ")]}
        elif source == "since the mark":
            which = {"since": self.times["mark"]}
        self.counts = (await ask(self.services, "RollbackSource", **which)).counts

    async def remember(self, name: str) -> None:
        self.known[name] = await self.one(name)

    # --- what is so then ---

    async def told(self, names: str) -> None:
        names_of = {words: name for name, words in WORDS.items()}
        every = [each.content for each in await memories(self.services)]
        found = [names_of.get(each, each) for each in every if each not in (*_CAUSES, _CHANGED)]
        assert sorted(found) == ([] if names == "nothing" else sorted(names.split())), every

    async def sources(self, name: str, conversations: str) -> None:
        found = sorted(each.conversation_id for each in (await self.one(name)).sources)
        assert found == sorted(conversations.split()), found

    async def as_before(self, name: str, before: str | None) -> None:
        now, known = await self.one(name), self.known[before or name]
        assert now.id == known.id, (now, known)
        if before is None:
            assert (now.content, list(now.sources)) == (known.content, list(known.sources)), now

    async def version(self, name: str, number: str) -> None:
        assert (await self.one(name)).version == int(number)

    async def status(self, name: str, status: str) -> None:
        found = memory_pb2.MemoryStatus.Name((await self.one(name)).status)
        assert found == f"MEMORY_STATUS_{status.upper()}", found

    async def since(self, name: str, conversation: str) -> None:
        found = await self.one(name)
        assert found.conversation_id == conversation, found
        assert found.valid_from.ToDatetime(UTC) == self.times[conversation], found

    async def confirmed(self, name: str, conversation: str) -> None:
        found = (await self.one(name)).last_confirmed_at.ToDatetime(UTC)
        assert found == self.times[conversation], found

    async def open(self, name: str) -> None:
        found = await self.one(name)
        assert (found.superseded_by, found.HasField("valid_to")) == ("", False), found

    async def ended(self, name: str) -> None:
        found = await self.one(name)
        active = found.status == memory_pb2.MEMORY_STATUS_ACTIVE
        assert (found.HasField("valid_to"), active) == (True, False), found

    async def worth(self, name: str, importance: str) -> None:
        assert (await self.one(name)).importance == float(importance)

    async def names(self, name: str, what: str, others: str) -> None:
        found = await self.one(name)
        ids = found.supersedes if what == "stands for" else found.may_replace
        each = [] if others == "nothing" else others.split()
        assert set(ids) == {(self.known.get(one) or await self.one(one)).id for one in each}, found

    async def on_its_own(self, name: str) -> None:
        """It stands for no other memory, and has nothing of one."""
        found = await self.one(name)
        assert (list(found.supersedes), list(found.tags)) == ([], []), found

    async def in_doubt(self, name: str, because: str | None) -> None:
        found = await self.one(name)
        assert found.doubt.reason == "moved to Kassel", found
        if because is not None:
            assert found.doubt.because_memory_id == (await self.one(because)).id, found

    async def in_doubt_since(self, name: str, conversation: str) -> None:
        found = (await self.one(name)).doubt.since.ToDatetime(UTC)
        assert found == self.times[conversation], found

    async def without(self, name: str, what: str) -> None:
        found = await self.one(name)
        assert not found.HasField("doubt" if what == "certain" else "last_confirmed_at"), found

    async def counted(self, name: str, number: str) -> None:
        assert self.counts[name] == int(number), self.counts

    async def messages(self, conversations: str) -> None:
        """Of which conversations a search tells messages."""
        scopes, query = [search_pb2.SEARCH_SCOPE_MESSAGES], WORDS["MEAT"]
        found = await ask(self.services, "SearchMemories", query=query, scopes=scopes)
        told = {hit.message.conversation_id for hit in found.results}
        assert told == (set() if conversations == "nothing" else set(conversations.split()))


_ACTS: Mapping[str, Callable[..., Awaitable[None]]] = {
    r"told: (.+)": Teller.told,
    r"messages of: (.+)": Teller.messages,
    r"counted (\w+): (\d+)": Teller.counted,
    r"(\w+) (\d+|now|mark): (.+)": Teller.say,
    r"forget (\w+)": Teller.forget,
    r"restore (\w+)": Teller.restore,
    r"save (\w+)(?: as (\w+))?": Teller.save,
    r"correct (\w+) to (\w+)( along)?": Teller.correct,
    r"clear": Teller.clear,
    r"merge": Teller.merge,
    r"undo the merge": Teller.undo,
    r"(vainly )?join (.+) to (\w+)": Teller.join,
    r"will replace (\w+) by (\w+)": Teller.will_replace,
    r"call (\w+) certain": Teller.call_certain,
    r"replace (\w+) by (\w+)": Teller.replace,
    r"will doubt (.+) because (\w+)": Teller.will_doubt,
    r"doubt (.+) because (\w+)": Teller.doubt,
    r"settle": Teller.settle,
    r"name it (\w+)": Teller.name_job,
    r"approve (\w+)(?:, as (.+))?": Teller.approve,
    r"mark": Teller.mark,
    r"take back (.+)": Teller.take_back,
    r"remember (\w+)": Teller.remember,
    r"(\w+) as before()": lambda teller, name, _: teller.as_before(name, None),
    r"(\w+) was (\w+)": Teller.as_before,
    r"(\w+) is version (\d+)": Teller.version,
    r"(\w+) is (\w+)": Teller.status,
    r"(\w+) in doubt since (\w+)": Teller.in_doubt_since,
    r"(\w+) since (\w+)": Teller.since,
    r"(\w+) confirmed by (\w+)": Teller.confirmed,
    r"(\w+) goes on": Teller.open,
    r"(\w+) has ended": Teller.ended,
    r"(\w+) is worth (.+)": Teller.worth,
    r"(\w+) (stands for|may replace) (.+)": Teller.names,
    r"(\w+) in doubt(?: because (\w+))?": Teller.in_doubt,
    r"(\w+) (certain|unconfirmed)": Teller.without,
    r"(\w+) on its own": Teller.on_its_own,
    r"(\w+) of (.+)": Teller.sources,
}
