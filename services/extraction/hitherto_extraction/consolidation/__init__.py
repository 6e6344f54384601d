"""Consolidation (C1): merges memories of one user about the same subject.

It runs automatically as soon as more than `HITHERTO_CONSOLIDATE_ABOVE` active memories of a user
share a tag (queued in the transaction that makes them so many), every night over all users, and by
`Consolidate`, which with a tag works from that number on.

Memories may be merged (`groups`) if they are active, share a tag, are about the same subject, and
have compatible types. Achieved goals, sensitive memories, and memories that expire or that have
ended are left out. At most 20 go into one model call, the oldest first, and each memory into one
call of a run. Automatic runs keep the two levels of trust apart, so that nobody can lower the trust
in what the user said by adding a similar statement; a caller of `Consolidate` requests one result,
whose trust is the lowest of its originals.

The model's answer is untrusted (`merging`, `faithfulness`). An item needs two originals that were
shown and that no earlier item took. It may add no name and no number, may neither reverse nor lose
a denial, and must be about the same subject and the same things. Items that fail are dropped and
counted. These checks replace the limit on status changes, because replacing its originals is the
purpose of a merge.

The call holds no lock. Afterwards one transaction locks the user, reads the originals again, and
skips every item with a changed original. The originals become SUPERSEDED; the merged memory names
them, holds since the last of them began to hold, and has their sources, mentions and tags. The
remaining group of a tag is recorded by its fingerprint, so that an unchanged group costs no second
call. `UndoConsolidation` restores the originals, and memories that a person has taken apart are
merged again only if a person requests it for their tag and the tag has a newer memory.
"""
