"""A person's memory as a folder of text files, for agents that work with files.

`MemoryFiles` runs the six commands of Anthropic's memory tool (`memory_20250818`) over the profile,
the memories and the documents of a person. `hitherto_client.integrations.anthropic` offers it to
the `anthropic` package.
"""

from hitherto_client.memory_files.commands import MemoryFiles
from hitherto_client.memory_files.tree import MemoryFileError

__all__ = ["MemoryFileError", "MemoryFiles"]
