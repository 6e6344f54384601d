"""Texts that are searched by words and by vector: memories, messages, summaries, document chunks.

The module of a corpus, one kind of them, holds its statements, under the same parameters and with
the same columns as the others. `vectors` and `index` carry them out.
"""
