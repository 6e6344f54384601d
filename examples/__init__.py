"""Programs that show Recollect at work."""
