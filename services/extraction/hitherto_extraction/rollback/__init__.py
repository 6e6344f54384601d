"""RollbackSource: reverts everything that was learnt from one conversation, document or job.

Memories that only the source states are forgotten; others return to their earlier words; what it
contradicted or merged is restored. Messages stay, and what was forgotten is not learnt from them
again. RestoreMemory and UndoConsolidation build on the same histories.
"""
