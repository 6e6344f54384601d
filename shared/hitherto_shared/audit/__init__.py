"""The audit log: its entries, recorded reads, and the signed digests that prove its integrity."""
