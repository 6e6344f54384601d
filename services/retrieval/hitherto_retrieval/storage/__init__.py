"""The SQL of the read side: plain statements for one tenant and one user, by noun."""
