"""Retrieval quality on real conversations: LoCoMo's sessions and questions.

    LOCOMO_DIR=… python -m benchmarks.locomo [--embedder KIND] [--limit N] [--json FILE]
    python -m benchmarks.locomo compare A.json B.json

`LOCOMO_DIR` holds `locomo_dev_transcripts.jsonl` and `locomo_dev.json` (Maharana et al., ACL 2024;
CC BY-NC: it is not part of this project). Every session goes through SubmitTranscripts; a scripted
model answers with the facts a language model once extracted from it, so that the whole pipeline
runs without a paid API. Every question then goes through SearchMemories, among memories, among
messages, and among both, by the default ranking, without each of its components in turn, and by
other rankings; and through GetContext, whose block is searched for the evidence. `EVAL_DIR` names a
folder of one's own in the same format.

`data` reads the files, `splitting` splits their messages; `embedders` says which can be measured
here; `loading`, `searching` and `context` talk to the services; `variants` are the rankings;
`naive` makes the lists that a block is held against; `measure` does it all for one embedder;
`scores` judges an answer; `report` makes figures and tables of all scores.
"""
