"""One model call about one group: the answer, checked, embedded and priced. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from uuid import UUID

from hitherto_extraction.consolidation.groups import Group
from hitherto_extraction.consolidation.merging import Merges, accept, local_ids, read_reply
from hitherto_extraction.consolidation.writing import source_words
from hitherto_extraction.pipeline.embedding_loop import embed_or_leave
from hitherto_extraction.pipeline.model_call import ask_for
from hitherto_extraction.pipeline.prompt import load_prompt, memory_line
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.provider.protocol import (
    CONSOLIDATION,
    Batch,
    ChatModel,
    Completion,
    Prompt,
    PromptMemory,
)
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.offloading import in_thread

_FEWEST_TO_HALVE = 4

VERSION = "consolidation_2"

_SYSTEM, _SCHEMA = load_prompt(VERSION)


@dataclass(frozen=True, slots=True)
class Background:
    """What is known about a group besides what the model is shown.

    Attributes:
        apart: For each memory, the merges that a person has taken it out of.
        words: For each memory the messages behind it, the newest first.
        zone: The user's time zone, whose days the lines name.
    """

    apart: Mapping[UUID, Collection[UUID]]
    words: Mapping[UUID, Sequence[str]]
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class MergeProposals:
    """The result of a call: permitted merges, and the cost.

    `embedded_by` names the model of the merges' vectors, `answered_by` the language model.
    """

    merges: Merges
    charges: Sequence[Charge]
    answered_by: str
    embedded_by: str


@dataclass(eq=False)
class MergeModel:
    """Sends groups to the language model."""

    chat: ChatModel
    embedder: Embedder
    prices: Prices

    async def ask(
        self, group: Group, background: Background, wasted: Sequence[Completion]
    ) -> MergeProposals:
        """Ask which memories of a group say the same; `wasted` calls are charged with this one.

        Raises:
            TooMuch: The reply was cut off; ask about fewer memories.
            ModelError: There was no usable answer.
        """
        prompt = await in_thread(build_prompt, group, background.zone)
        reply = await ask_for(
            self.chat,
            prompt,
            lambda text: read_reply(text, group),
            divisible=len(group) >= _FEWEST_TO_HALVE,
        )
        # Checking a merge against its originals reads every word of them.
        accepted = await in_thread(
            accept, reply.answer, apart=background.apart, zone=background.zone
        )
        words = [source_words(background.words, each.originals) for each in accepted.items]
        model = self.embedder.name
        texts = [*(each.content for each in accepted.items), *filter(None, words)]
        made = await embed_or_leave(self.embedder, texts)
        merges = [
            replace(
                each,
                words=said,
                content_vector=made.vector_of(each.content),
                words_vector=made.vector_of(said),
            )
            for each, said in zip(accepted.items, words, strict=True)
        ]
        charges = [
            *self.prices.wasted("consolidation", wasted),
            self.prices.charge("consolidation", reply),
        ]
        if made.calls:
            charges.append(self.prices.embedding_charge(model, made.calls, made.tokens))
        return MergeProposals(replace(accepted, items=merges), charges, reply.model, model)


def build_prompt(group: Group, zone: tzinfo) -> Prompt:
    """The prompt for a group, whose members are `e1`, `e2`… in their order, with days of `zone`."""
    memories = [
        PromptMemory(name, each.type, each.content, each.valid_from, each.tags)
        for name, each in local_ids(group).items()
    ]
    return Prompt(
        system=_SYSTEM,
        user="\n".join(["MEMORIES:", *(memory_line(each, zone) for each in memories)]),
        batch=Batch(profile={}, summary=None, memories=memories, messages=[]),
        schema=_SCHEMA,
        task=CONSOLIDATION,
    )
