"""The kinds of items that can be searched: memories, messages, summaries, documents.

Each corpus finds candidates and reads the best ones whole; `corpus.py` defines their input. A
search queries all of its corpora in the same round trip.
"""
