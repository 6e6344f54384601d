"""Prompts and schemas, versioned by file name: `extraction_4.md` with `extraction_4.json`.

A prompt that was used is never edited: a better one gets the next number, so that the version
stored with every job identifies the exact prompt.
"""
