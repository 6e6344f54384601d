"""RPC handlers: validate a request, call one function, convert the result. No rules here."""
