"""Consolidation (C1): merges memories of one user about the same subject.

When: by itself as soon as more than `HITHERTO_CONSOLIDATE_ABOVE` active memories of a user share a
tag (`pipeline.crowding`, in the transaction that makes them so many), every night over all users,
and by `Consolidate`, which with a tag works from that number on.

What may be merged (`groups`): active memories that share a tag, speak of the same subject, and are
of types that may become one. Achieved goals, sensitive memories, memories that expire or that have
ceased to hold stay out. At most 20 go into one call of the model, the oldest first, and a memory
into one call of a run. What runs by itself keeps the two levels of trust apart, so that nobody can
lower the trust of what the user said by saying something beside it; whoever calls `Consolidate`
asks for one result, and its trust is the lowest of its originals.

The model's answer is untrusted (`reply`, `faithfulness`): an item needs two originals that were
shown and that no earlier item took, may add no name and no number, may neither turn nor lose what
was denied, has to speak of the same subject and of the same things. What fails is dropped and
counted.
This takes the place of the cap on status changes: replacing its originals is what a merge is for.

The call holds no lock. Afterwards one transaction locks the user, reads the originals again, and
leaves out every item of which an original has changed. The originals become SUPERSEDED, the merged
memory names them, holds since the last of them began to hold, and has their sources, mentions and
tags. What is left under a tag is remembered by its fingerprint: an unchanged group costs no second
call. `UndoConsolidation` (`undo`) brings the originals back, and what a person has taken apart is
merged again only if a person asks for its tag and a newer memory has come to it.
"""
