"""Programs that show Hitherto at work."""
