"""Memory over HTTP and JSON: a receiver of webhooks and a web page, without any package."""
