"""Retrieval quality on real conversations: LoCoMo's sessions and questions, or one's own.

A scripted model answers with the facts that a language model once extracted from each session, so
that the whole pipeline runs without a paid API. benchmarks/README.md says what is measured.

`data` reads the files; `answers` has the rankings and scores an answer, `blocks` does so for
contexts; `measure` asks everything for one embedder; `report` makes figures and tables of it.
"""
