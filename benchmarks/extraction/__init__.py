"""Extraction quality: what is learnt from written conversations, against what should be learnt.

Every row of `data/` is a conversation with what it must teach, what it must not, and what must
become of memories that were there before. Each goes through both services by their public calls.

`rows` is the data set, `run` deals with the services; `wording`, `support`, `matching` and `scores`
are the rules by which a row is judged, as plain functions; `report` makes figures and tables of all
rows.
"""
