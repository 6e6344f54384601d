"""What can be searched: memories, messages, summaries of conversations, documents.

Each kind knows how to look for candidates and how to read the best ones whole; `looking.py` says
what they are given. A search asks all of its kinds in the same round trip.
"""
