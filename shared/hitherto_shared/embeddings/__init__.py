"""Text in, unit vectors out: one protocol, three embedders (OpenAI-compatible, ONNX, offline)."""
