"""The language model behind one small protocol: OpenAI-compatible, or offline rules."""
