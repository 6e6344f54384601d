"""Extraction quality: what is learnt from written conversations, against what should be learnt.

    python -m benchmarks.extraction [--limit N] [--language L] [--category C] [--json FILE]
    python -m benchmarks.extraction compare A.json B.json

Every row of `data/` is a conversation with what it must teach, what it must not, and what must
become of memories that were there before. Each goes through both services and their public calls
on an embedded database, with the model that the environment names (`OPENAI_BASE_URL`,
`OPENAI_API_KEY`, `MEMORY_EXTRACTION_MODEL`), or with the offline rules without one.

`rows` is the data set, `run` deals with the services; `wording`, `support`, `matching` and `scores`
are the rules by which a row is judged, as plain functions; `judge` asks a second model, if wanted;
`report` makes figures and tables of all rows.
"""
