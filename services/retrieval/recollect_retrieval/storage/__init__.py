"""The read side's SQL: plain statements, each for one tenant and one user, straight to the nouns."""
