"""RollbackSource: reverts everything that was learnt from one conversation, document or job.

For the day on which a source turns out to be poisoned: memories that only it states are forgotten,
others lose it as a source and get back the words they had before it, what it contradicted or
merged comes back, and the profile loses what it brought. Messages stay, and what was forgotten is
not learnt from them again.
"""
