"""The audit log: what enters it, what was read of whom, and signed digests that prove it whole."""
