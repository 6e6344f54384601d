"""The Python client of Recollect; needs the extra `cli` (`pip install 'recollect[cli]'`).

Example:
    with RecollectClient() as client:
        block = client.get_context("sarah", "where do I live?").prompt_block
"""

try:
    from recollect_client.calls import RetryPolicy
    from recollect_client.client import EnhancedPrompt, RecollectClient
    from recollect_client.errors import RecollectCallError, Violation
    from recollect_client.streams import Progress
except ModuleNotFoundError as error:
    raise ImportError(
        f"the client needs {error.name}: pip install 'recollect[cli]'", name=error.name
    ) from error

__all__ = [
    "EnhancedPrompt",
    "Progress",
    "RecollectCallError",
    "RecollectClient",
    "RetryPolicy",
    "Violation",
]
