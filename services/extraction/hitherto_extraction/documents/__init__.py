"""Documents (B16): emails, files, tasks and events that a backend supplies as knowledge.

A job indexes them without a language model. When a document changes, everything derived from it is
rebuilt in one transaction; unchanged chunks keep their vectors. A user's switch for learning does
not affect documents, the switch for memory does.
"""
