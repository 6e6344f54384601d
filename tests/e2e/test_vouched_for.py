"""Who restores what nothing states any more vouches for it (faults.md, row 72).

No later roll-back of the same source takes anything of it back, except what the source has said
about it since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.e2e.conftest import Services
from tests.e2e.curating import restore, save
from tests.e2e.handing_over import document, taken_in
from tests.e2e.importing import bring
from tests.e2e.learning import learn, memories, talk
from tests.e2e.leaving import export
from tests.e2e.methods import ask
from tests.e2e.reconciling import nothing, script, with_words
from tests.e2e.stories import MERGED, NOON, WORDS, Teller, stories
from tests.scripted_model import ChatRequest
from tests.scripted_model.answers import memory as new_memory

MEAT = WORDS["MEAT"]
VOUCHED = "meat 0: MEAT; take back meat; restore MEAT"
JOINED = f"{VOUCHED}; save VEGETARIAN; join MEAT to VEGETARIAN; remember VEGETARIAN"
FIVE = "CAKES PIES BUNS ROLLS TARTS"

SERVICE_SETTINGS = {"reconcile": True}


@stories(
    f"""
    row 72: messages that somebody vouched for stay, not those that come afterwards:
        {VOUCHED}; MEAT of meat; remember MEAT; take back meat; told: MEAT; MEAT as before
        meat 1: MEAT!; MEAT of meat meat; take back meat; told: MEAT; MEAT as before
        take back meat; told: MEAT; MEAT as before
    row 72: messages that somebody vouched for stay with what it was joined to:
        {JOINED}; VEGETARIAN of meat; take back meat; told: VEGETARIAN; VEGETARIAN as before
    row 72: what was restored before a merge stays merged:
        {MERGED.removesuffix("merge")} take back cakes; restore CAKES; merge; remember BAKES
        take back cakes; told: BAKES; BAKES as before; take back pies; told: CAKES BUNS ROLLS TARTS
    row 72: what was restored as ended is told once that is taken back:
        first 0: MEAT; ended 1: No longer: MEAT; take back first; restore MEAT
        MEAT is contradicted; told: nothing; take back ended; told: MEAT; MEAT goes on
    row 72: messages that somebody vouched for stay with a part that is repeated:
        {VOUCHED}; remember MEAT; save VEGETARIAN; join MEAT to VEGETARIAN; remember VEGETARIAN
        meat 1: MEAT!; VEGETARIAN of meat meat; take back meat; VEGETARIAN as before; MEAT as before
    row 72: a part that only a repetition states stays joined:
        meat 0: MEAT; save VEGETARIAN; join MEAT to VEGETARIAN; again 1: MEAT!; take back meat
        MEAT is superseded; VEGETARIAN of again; MEAT of again
        restore MEAT; told: MEAT VEGETARIAN
    row 72: what is taken back twice was taken back the first time:
        {MERGED}; again 6: CAKES!; own 7: BAKES; undo the merge; told: BAKES {FIVE}
        take back own; restore BAKES; join CAKES to BAKES; told: BAKES PIES BUNS ROLLS TARTS
        take back cakes; told: BAKES {FIVE}
    row 72: who restores what a repetition was taken back of vouches for nothing more:
        {VOUCHED}; again 1: MEAT!; forget MEAT | asked 2: Forget: MEAT
        take back again; restore MEAT | take back asked
        told: MEAT; MEAT of meat
    a goal that was reached can be forgotten, and comes back as reached:
        first 0: GOAL; again 1: GOAL!; done 2: Reached: GOAL; asked 3: Forget: GOAL
        told: nothing; take back first; told: nothing; take back asked
        GOAL is achieved; GOAL of again
    """,
    *(
        f"""
    row 72: what is restored is as before an end that is taken back, by {verb}:
        first 0: GOAL; ended 1: {verb}: GOAL
        forget GOAL | take back first | forget GOAL | take back first
        restore GOAL | restore GOAL ||
        GOAL has ended | GOAL has ended ||
        take back ended; restore GOAL; GOAL is active; GOAL goes on; GOAL is worth 0.5
    """
        for verb in ("No longer", "Over", "Reached")
    ),
)
async def test_who_restores_vouches(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


async def test_row_72_a_document_that_is_taken_back_again_takes_nothing_that_was_restored(
    modelled: Services,
) -> None:
    ana = Teller(modelled)
    (letter,), _ = await taken_in(modelled, document("letter", "Plans.", title="A letter"))
    held = (await save(modelled, WORDS["MEAT"], metadata={"document_id": letter})).memory
    await ask(modelled, "RollbackSource", document_id=letter)
    await ana.tell("told: nothing")
    await restore(modelled, held.id)
    for _ in range(3):
        await ask(modelled, "RollbackSource", document_id=letter)
        await ana.tell("told: MEAT")


async def test_row_72_what_was_said_after_a_restore_goes_from_an_imported_memory_too(
    modelled: Services,
) -> None:
    ana = Teller(modelled)
    await ana.tell("first 0: MEAT; take back first; restore MEAT; second 1: MEAT")
    await bring(modelled, (await export(modelled)).text.encode(), user="bo")
    for user in ("ana", "bo"):
        source = {"user_id": user, "conversation_id": "second"}
        await ask(modelled, "RollbackSource", **source)
        (after,) = await memories(modelled, user=user)
        assert [each.conversation_id for each in after.sources] == ["first"]


def naming(request: ChatRequest) -> Mapping[str, Any]:
    """Learn each message word for word; `/` parts it from the person that it mentions."""
    (said,) = request.messages
    words, _, person = said.content.rstrip("!").partition(" / ")
    entities = [{"name": person, "type": "person"}]
    return {"new_memories": [new_memory(words, [said.local_id], entities=entities)]}


async def test_row_72_what_is_restored_names_whom_and_where_it_did(modelled: Services) -> None:
    """Also once somebody else has repeated it, and is taken back."""
    modelled.model.script = script(nothing, naming)
    await learn(modelled, talk(f"{MEAT} / Lan", conversation="first", at=NOON))
    held = await with_words(modelled, MEAT)
    for said_again in (False, True):
        source = "again" if said_again else "first"
        await ask(modelled, "RollbackSource", conversation_id=source)
        if not said_again:
            assert not (await ask(modelled, "SearchMemories", entity="Lan")).results
            await restore(modelled, held.id)
        found = await ask(modelled, "SearchMemories", entity="Lan")
        assert [each.memory.id for each in found.results] == [held.id]
        told = found.results[0].memory
        assert (list(told.entities), told.conversation_id) == (["Lan"], "first")
        if not said_again:
            later = NOON + timedelta(days=1)
            await learn(modelled, talk(f"{MEAT}! / Huy", conversation="again", at=later))
            again = await with_words(modelled, MEAT)
            assert list(again.entities) == ["Huy", "Lan"]
