"""What somebody does by hand holds, whatever else is taken back (faults.md, rows 10 and 72).

Who restores a memory states it, and who forgets one asks for it, also if it is forgotten. What came
later undoes no merge that was made before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.conftest import Services
from tests.e2e.curating import REJECT, forget, review, update
from tests.e2e.learning import learn, rows, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.reconciling import with_words
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.stories import MERGED, NOON, WORDS, Teller, stories

SERVICE_SETTINGS = {"reconcile": True, **ENCRYPTING}


@stories(
    f"""
    row 72: what somebody restored outlives later roll-backs, whatever it was forgotten by:
        first 0: MEAT; | forget MEAT
        take back first; restore MEAT; remember MEAT
        bad 1: No longer: MEAT; told: nothing; take back bad; told: MEAT; MEAT as before
        bad 2: Forget: MEAT; told: nothing; take back bad; told: MEAT; MEAT as before
        take back first; told: MEAT
    row 72: what somebody restored and others stated goes with these:
        first 0: MEAT; forget MEAT; restore MEAT; take back first; told: nothing
    row 72: what was parted by hand from something forgotten outlives later roll-backs:
        none 0: NONE; vegetarian 1: VEGETARIAN; join NONE to VEGETARIAN; forget VEGETARIAN
        take back none; restore NONE; told: NONE
        bad 2: No longer: NONE; told: nothing; take back bad; told: NONE
    row 72: who restores vouches also for what the memory was joined to:
        meat 0: MEAT; take back meat; restore MEAT; save VEGETARIAN; join MEAT to VEGETARIAN
        VEGETARIAN of meat; remember VEGETARIAN; asked now: Forget: VEGETARIAN; told: nothing
        take back asked; told: VEGETARIAN; VEGETARIAN as before
    row 72: what repeats an original later undoes no merge, nor beside a request to forget that:
        {MERGED}; remember BAKES; again 6: CAKES!
        | again 7: Forget: BAKES
        | told: nothing
        take back again; told: BAKES; BAKES as before; take back cakes; told: PIES BUNS ROLLS TARTS
    row 72: a request that is taken back with a merge leaves its originals:
        {MERGED}; cakes 6: Forget: BAKES; told: nothing
        take back cakes; told: PIES BUNS ROLLS TARTS
    row 10: a request by hand outlives the one before it, and holds for what was said before it:
        first 0: MEAT; asked 1: Forget: MEAT; forget MEAT; MEAT is version 3
        forget MEAT; MEAT is version 3; take back asked; told: nothing
        late 2: MEAT!; told: nothing; restore MEAT; told: MEAT
    row 10: a request by hand holds for what was taken back:
        first 0: MEAT; take back first; forget MEAT; late 1: MEAT!; told: nothing
    row 72: what is said again has nothing of a source that is gone:
        first 0: MEAT; forget MEAT; take back first; later now: MEAT; told: MEAT
        MEAT since later; MEAT of later; take back later; told: nothing
    row 10: clearing asks to forget what a conversation has forgotten, and once only:
        first 0: MEAT; asked 1: Forget: MEAT
        clear; counted memories: 0; MEAT is version 3; clear; counted memories: 0; MEAT is version 3
        take back asked; told: nothing
    row 72: what is said again has nothing of a source that is gone, whatever else stated it:
        first 0: MEAT; before 1: MEAT! | take back first
        forget MEAT; take back first | late 1: MEAT!
        told: nothing; later now: MEAT; told: MEAT; MEAT since later; MEAT of later
        asked now: Forget: MEAT; told: nothing; take back asked; told: MEAT; MEAT of later
        take back later; told: nothing
    row 72: what is said again has nothing that it had by a join:
        first 0: MEAT; other 1: VEGETARIAN; join MEAT to VEGETARIAN; forget VEGETARIAN
        VEGETARIAN of first other; take back first; later now: VEGETARIAN; VEGETARIAN of later
    row 72: what is said again has nothing that it had by a correction:
        first 0: MEAT; correct MEAT to VEGETARIAN along; MEAT of first
        take back first; later now: MEAT; MEAT of later
    """
)
async def test_a_hand_holds(modelled: Services, story: Sequence[str]) -> None:
    await Teller(modelled).tell(story)


async def test_row_10_undoing_a_merge_brings_nothing_forgotten_back(modelled: Services) -> None:
    """Somebody asked to forget the words of an original while the merged memory stood for it."""
    ana = Teller(modelled)
    await ana.tell(f"{MERGED}; save BREAD; correct BREAD to CAKES; forget CAKES")
    undone = await ask(modelled, "UndoConsolidation", memory_id=ana.merged_id)
    replaced = [each.content for each in undone.memories if each.superseded_by]
    assert replaced == [WORDS["CAKES"]]
    await ana.tell("told: PIES BUNS ROLLS TARTS")
    await ana.tell("restore CAKES; told: CAKES PIES BUNS ROLLS TARTS")


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("forgotten", [True, False])
async def test_row_72_what_was_sealed_stays_so_if_it_is_said_again(
    modelled: Services, forgotten: bool, encrypts: bool
) -> None:
    """Its source was taken back; also if encryption was turned off since."""
    await choose(modelled, encrypt_sensitive=True)
    ana = Teller(modelled)
    await ana.tell("first 0: MEAT")
    await update(modelled, (await ana.one("MEAT")).id, "sensitive", sensitive=True)
    await ana.tell("forget MEAT; take back first" if forgotten else "take back first")
    if not encrypts:
        await choose(modelled, encrypt_sensitive=False)
    await ana.tell("later now: MEAT; told: MEAT")
    sealed = "SELECT sensitive, sealed IS NOT NULL FROM hitherto.memories"
    assert set(rows(modelled.conninfo, sealed)) == {(True, True)}
    await ana.tell("take back later; told: nothing")
    assert set(rows(modelled.conninfo, sealed)) == {(True, True)}


async def test_row_10_clearing_changes_nothing_that_a_review_rejected(modelled: Services) -> None:
    """That was a request to forget it too."""
    await Teller(modelled).tell("first 0: MEAT")
    ending = f"No longer: {WORDS['MEAT']}"
    await learn(modelled, talk(("assistant", ending), conversation="claim", at=NOON))
    claimed = await with_words(modelled, "Ana has changed")
    rejected = await review(modelled, claimed.id, REJECT)
    assert (await ask(modelled, "ClearMemories")).counts["memories"] == 1
    assert (await forget(modelled, claimed.id)).version == rejected.version
