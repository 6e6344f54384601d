"""The read side's SQL: plain statements for one tenant and one user, straight to the nouns."""
