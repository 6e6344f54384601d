"""Changes by hand: memories, profiles, feedback, conversations.

Nothing here deletes what was learnt: every change of a memory is a version with an entry in its
history. Only `conversations` deletes rows, on request.
"""
