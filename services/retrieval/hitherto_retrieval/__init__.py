"""The retrieval service: answers questions with memories and context. It never writes a memory."""
