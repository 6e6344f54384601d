"""Imports the export of a user again (H2): the same records, with the same ids, without a model.

An export is foreign text: `catalogue` derives what each column of each record may hold from the
database, and `tables` and `shapes` add what it cannot tell.
"""
