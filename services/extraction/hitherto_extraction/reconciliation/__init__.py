"""Settles in the background what learning left open: one model call looks at what stands near.

`trigger` queues the job of a user whose memories changed or stand near each other.
"""
