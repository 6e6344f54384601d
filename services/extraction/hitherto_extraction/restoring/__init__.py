"""Imports the export of a user again (H2): the same records, with the same ids, without a model.

An export is foreign text. `columns` and `tables` state what each column of each record may hold,
`lines` reads records from the pieces of a stream, `writing` stores a group of them, sealed for a
user with encryption on, `one_import` runs an import from its first piece to the keyword index,
and `importing` a few of them at a time.
"""
