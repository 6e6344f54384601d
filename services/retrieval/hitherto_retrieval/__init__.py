"""The retrieval service: questions in, memories and context out. It never writes a memory."""
