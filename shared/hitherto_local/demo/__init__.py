"""The demo behind `hitherto demo`; docs/demo.md describes its conversations."""
