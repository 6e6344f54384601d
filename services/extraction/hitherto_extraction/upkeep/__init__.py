"""Upkeep without a model: decay, retention, and their schedules.

Decay (`decay`) archives; nothing it does loses anything. What is of little importance (below 0.3)
and was not told for 30 days, context whose current version is older than 90 days, and, where
`HITHERTO_MAX_MEMORIES` is set, the least important and longest unused memories above that number.
Decisions never decay, an achieved goal only by the first rule. An archived memory keeps its
versions, and `RestoreMemory` brings it back; a restored one counts as just used.

Retention (`retention`) is the one kind of upkeep that removes, and only where somebody asked for
it: `HITHERTO_RETENTION_DAYS` and `HITHERTO_MESSAGE_RETENTION_DAYS` for everybody, a user's own
setting before these (0: keep). A memory goes when its user said nothing and it was neither told
nor changed by a person for that many days: content, versions, vectors and words go, and its
history keeps who and when but no contents. A message goes when it is that old: the indexes are
made anew without its words. What was learnt stays, also the summaries of conversations and the
profile.

Both run as jobs of the tenant or of one user, in short transactions that each hold the users
concerned as every writer does. `schedules` says when: one job per tenant and slot, whatever the
number of replicas, by the database's clock.
"""
