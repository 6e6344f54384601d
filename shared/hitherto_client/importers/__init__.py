"""Reads what other products export, as the records that `hitherto import` sends.

A reader yields plain dicts: a transcript has `messages`, a memory has `content`. Ids and times are
those of the export, so that importing twice changes nothing, and `metadata.imported_from` names the
source. What is no such export, or can be read in two ways, raises ExportUnreadable.
"""

from hitherto_client.importers.formats import FORMATS, ImportFormat, read_export
from hitherto_client.importers.reading import ExportReport, ExportUnreadable

__all__ = ["FORMATS", "ExportReport", "ExportUnreadable", "ImportFormat", "read_export"]
