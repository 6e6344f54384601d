"""Renders the prompt block: what is known about a user, as text for an assistant's prompt.

It consists of pure functions: `block.render` is the entry point, `context` defines its input and
output, `values` turns stored text into harmless single lines, `layouts` defines the built-in
templates, `custom` the caller's own, and `budget` decides what fits.
"""
