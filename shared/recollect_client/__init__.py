"""The Python client of Recollect; needs the extra `cli` (`pip install 'recollect[cli]'`).

from recollect_client import RecollectClient

with RecollectClient() as client:
    block = client.get_context("sarah", "where do I live?").prompt_block
"""

from recollect_client.calls import RetryPolicy
from recollect_client.client import EnhancedPrompt, RecollectClient
from recollect_client.errors import RecollectCallError, Violation

__all__ = ["EnhancedPrompt", "RecollectCallError", "RecollectClient", "RetryPolicy", "Violation"]
