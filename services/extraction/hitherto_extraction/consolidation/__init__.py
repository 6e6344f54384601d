"""Consolidation (C1): merges memories of one user that say much the same (docs/upkeep.md).

At most 20 go into one model call, the oldest first, and each memory into one call of a run.
Achieved goals, sensitive memories, and memories that expire or have ended are left out. Automatic
runs keep the two levels of trust apart, so that nobody can lower the trust in what the user said by
adding a similar statement. No lock is held during a call: afterwards the originals are read again.
"""
