"""Renders the prompt block: what is known about a user, as text for an assistant's prompt.

Pure functions: `block.render` is the way in, `context` holds what it takes and returns, `values`
turns stored text into harmless single lines, `layouts` knows the shape of each template, `custom`
the caller's own, `budget` decides what fits.
"""
