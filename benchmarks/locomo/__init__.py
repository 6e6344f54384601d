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

`data` reads the files and splits their messages; `asking` sends the questions and scores the
answers, `blocks` does so for contexts; `measure` does it all for one embedder; `report` makes
figures and tables of all scores.
"""
