"""The calls of the client by topic; RecollectClient is all of them together."""
