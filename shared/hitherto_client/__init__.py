"""The Python client of Hitherto; needs the extra `cli` (`pip install 'hitherto[cli]'`).

Example:
    with HithertoClient() as client:
        block = client.get_context("sarah", "where do I live?").prompt_block
"""

try:
    from hitherto_client.calls import RetryPolicy
    from hitherto_client.client import EnhancedPrompt, HithertoClient
    from hitherto_client.errors import HithertoCallError, Violation
    from hitherto_client.streams import Progress
except ModuleNotFoundError as error:
    raise ImportError(
        f"the client needs {error.name}: pip install 'hitherto[cli]'", name=error.name
    ) from error

__all__ = [
    "EnhancedPrompt",
    "HithertoCallError",
    "HithertoClient",
    "Progress",
    "RetryPolicy",
    "Violation",
]
