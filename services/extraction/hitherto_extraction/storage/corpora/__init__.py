"""Texts that are searched by words and by vector: memories, messages, summaries, document chunks.

A corpus is one kind of them. Its module holds its statements, one for each duty, under the same
parameters and with the same columns as those of the others. `vectors` and `index` carry the duties
out, whatever the corpus.
"""
