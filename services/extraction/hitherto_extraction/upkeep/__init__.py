"""Upkeep without a model: decay, retention, and their schedules.

Decay (`decay`) archives and deletes nothing. It archives memories of little importance (below 0.3)
that no answer used for 30 days, context whose current version is older than 90 days, and, if
`HITHERTO_MAX_MEMORIES` is set, the least important and longest unused memories beyond that number.
Decisions never decay, achieved goals only by the first rule. An archived memory keeps its versions,
and `RestoreMemory` brings it back; a restored one counts as just used.

Retention (`retention`) is the only upkeep that deletes, and only on request:
`HITHERTO_RETENTION_DAYS` and `HITHERTO_MESSAGE_RETENTION_DAYS` apply to everybody, and a user's own
setting takes precedence (0: keep). A memory is deleted if, for that many days, its user said
nothing, no answer used it and nobody changed it: content, versions, vectors and words are deleted,
and its history keeps actors and times without contents. A message is deleted at that age, and the
indexes are rebuilt without its words. What was learnt stays, including the summaries of
conversations and the profile.

Both run as jobs of the tenant or of one user, in short transactions that lock the users concerned
like every writer. `schedules` decides when: one job per tenant and slot, whatever the number of
replicas, by the database's clock.
"""
