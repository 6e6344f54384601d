"""The Hitherto contract: generated messages and stubs, one package per version."""
