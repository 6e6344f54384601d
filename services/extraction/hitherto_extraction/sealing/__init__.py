"""Sealing what stood in clear before a user's sensitive text was to be encrypted (H3).

`steps` are small changes that each find nothing to do once all is done, `vectors` embeds sealed
memories that have no vector, and `sweep` goes through users and repeats the steps.
"""
