"""Working memory (F3): the context of a session, recent items and pending actions.

Nothing here learns. The contents of a session serve the next answers and expire within hours; to
keep something permanently, submit the conversation or save a memory.
"""
