"""Consolidation (C1): merges memories of one user that say much the same.

It runs automatically as soon as more than `HITHERTO_CONSOLIDATE_ABOVE` active memories of a user
share a tag (queued in the transaction that makes them so many), every night over all users, and by
`Consolidate`, which with a tag works from that number on.

Memories may be merged (`groups`) if they are active, share a tag and have compatible types. The
memories of a tag are looked at together once; later, only those near each other of which one is
new. Achieved goals, sensitive memories, and memories that expire or that have
ended are left out. At most 20 go into one model call, the oldest first, and each memory into one
call of a run. Automatic runs keep the two levels of trust apart, so that nobody can lower the trust
in what the user said by adding a similar statement; a caller of `Consolidate` requests one result,
whose trust is the lowest of its originals.

The model's answer is untrusted (`merging`). An item needs two originals that were shown and that no
earlier item took. It may add no number, be no longer than its originals together, and give no
orders. Items that fail are dropped and counted. These checks replace the limit on status changes,
because replacing its originals is the purpose of a merge; every merge can be undone.

The call holds no lock. Afterwards one transaction locks the user, reads the originals again, and
skips every item with a changed original. The originals become SUPERSEDED; the merged memory names
them, holds since the first of them began to hold, and has their sources, mentions and tags. Every
group that was answered is recorded by its fingerprint, so that an unchanged group costs no second
call. `UndoConsolidation` restores the originals (`rollback.merges`), and memories that a person has
taken apart are merged again only if a person requests it for their tag and the tag has a newer one.
"""
