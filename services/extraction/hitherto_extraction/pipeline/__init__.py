"""The extraction pipeline: pure functions decide what is learnt; only `extraction` does I/O.

In the order in which a batch passes: `selection` (what is known and relevant), `prompt`, `answer`
(the model's reply, checked item by item), `dedupe`, `plan` (what to write), `profile`, `summarise`.
"""
