"""Documents (B16): emails, files, tasks and events that a backend supplies as knowledge.

A document is stored whole at once, and a job indexes it: it is divided into chunks at sentence
boundaries, the chunks are indexed by their words and embedded, and the people, projects and places
in its headers and fields become entities. No language model is called. When the document changes,
everything derived from it is rebuilt in one transaction, so that its old chunks are found until
then; unchanged chunks keep their vectors. An unchanged document costs nothing.

Documents are knowledge, not learning: a user's switch for learning does not affect them, the switch
for memory does.
"""
