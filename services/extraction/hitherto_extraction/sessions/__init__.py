"""Working memory (F3): the context of a session, recent items and pending actions.

Nothing here learns. What is kept of a session serves the next answers and is gone within hours; who
wants to keep something for good hands over the conversation or saves a memory.
"""
