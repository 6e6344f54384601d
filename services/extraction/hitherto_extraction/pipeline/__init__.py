"""The extraction pipeline: pure functions decide what is learnt; only `extraction` does I/O.

A batch passes through these modules in order: `selection` (relevant known memories), `prompt`,
`answer` (the model's reply, checked item by item), `dedupe`, `plan` (what to write), `profile`,
`summarise`.
"""
