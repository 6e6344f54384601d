"""An assistant with a long-term memory: what a backend does with Hitherto, from end to end."""
