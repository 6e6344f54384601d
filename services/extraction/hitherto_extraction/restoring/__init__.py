"""Imports the export of a user again (H2): the same records, with the same ids, without a model.

An export is foreign text. `catalogue` derives what each column of each record may hold from the
database, `tables` and `shapes` add what it cannot tell, and `columns` checks the values. `lines`
reads records from the pieces of a stream, `writing` stores a group of them, sealed for a user with
encryption on, `one_import` runs an import from its first piece to the keyword index, and
`importing` a few of them at a time.
"""
