"""Seals the existing clear text of a user who has turned encryption on (H3).

`steps` are small changes that each find nothing to do once all is done, `vectors` embeds sealed
memories that have no vector, and `sweep` goes through users and repeats the steps.
"""
