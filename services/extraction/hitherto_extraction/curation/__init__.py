"""Changes by hand: memories, profiles, feedback, conversations.

Nothing here deletes what was learnt: every change of a memory is a version and an entry in its
history. Only `conversations` removes rows, because a person asked for that.
"""
