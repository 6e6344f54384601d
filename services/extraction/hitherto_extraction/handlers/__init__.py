"""The edge of the service: check a request, call one thing, convert the answer; no rules here."""
