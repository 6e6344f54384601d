"""From a question to ranked memories.

`query` embeds (cached, coalesced, within its share of the deadline), `dates` finds time windows,
`ranking` adds up features and shows every component, `memories` runs the legs and joins them.
"""
