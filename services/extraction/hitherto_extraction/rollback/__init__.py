"""RollbackSource: reverts everything that was learnt from one conversation, document or job.

It is for sources that turn out to be poisoned. Memories that only the source states are forgotten;
others lose it as a source and return to their earlier words; what it contradicted or merged is
restored, and the profile loses what it contributed. Messages stay, and what was forgotten is not
learnt from them again. RestoreMemory and UndoConsolidation build on the same histories.
"""
