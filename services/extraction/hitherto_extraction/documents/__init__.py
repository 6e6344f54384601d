"""Documents (B16): emails, files, tasks and events that a backend supplies as knowledge.

A document is stored whole at once, and a job makes it findable: it is cut into chunks at sentence
borders, the chunks are indexed by their words and embedded, and the people, projects and places its
headers and fields name become entities. No language model is asked. What was made of a document is
made anew when the document changes, in one transaction, so that until then its old chunks are
found; chunks that stay as they were keep their vectors. An unchanged document costs nothing.

Documents are knowledge and not learning: a user's switch for learning does not concern them, the
switch for memory does.
"""
