"""The console: what is remembered, on web pages that people can read and change.

Needs the extra `console`. The pages are rendered here and call the services over gRPC with the
credential of whoever has signed in: the services decide what it may see and do.
"""
