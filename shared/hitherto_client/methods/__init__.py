"""The calls of the client by topic; HithertoClient is all of them together."""
