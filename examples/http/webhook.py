"""Receives messages from webhooks, remembers them, and answers with what is known about the person.

    python -m examples.http.webhook --door http://127.0.0.1:8090 --listen 127.0.0.1:9000

It stands for a workflow in n8n, Zapier or a help desk, and uses nothing but the standard library:
the HTTP door of Hitherto needs no client. Each event is a POST of

    {"id": "evt-1", "user": "ana", "conversation": "ticket-7", "text": "I moved to Porto."}

Webhooks deliver an event more than once. The event's id is that of the message, so that a
repetition changes nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 30
MOST_BYTES = 1024 * 1024


class CallFailed(Exception):
    """The door has refused a call; the message is its own, and the status goes to the sender."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Door:
    """Calls Hitherto with JSON over HTTP."""

    def __init__(self, address: str, credential: str = "") -> None:
        self._address = address.rstrip("/")
        self._headers = {"content-type": "application/json"}
        if credential:
            self._headers["authorization"] = f"Bearer {credential}"

    def call(self, rpc: str, **request: Any) -> Any:
        """The reply to a call such as `MemoryService/SaveMemory`.

        Raises:
            CallFailed: The call was refused, or the door cannot be reached.
        """
        asked = urllib.request.Request(
            f"{self._address}/hitherto.v1.{rpc}", json.dumps(request).encode(), self._headers
        )
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                told = json.load(error)
            raise CallFailed(error.code, f"{told['code']}: {told['message']}") from None
        except OSError as error:
            raise CallFailed(503, f"the door cannot be reached: {error}") from None


def handle(door: Door, event: dict[str, Any]) -> dict[str, Any]:
    """Remember what an event says, and tell what is known.

    Raises:
        CallFailed: The door has refused it.
        KeyError: The event lacks something.
    """
    stored = door.call(
        "ExtractionService/AppendMessages",
        userId=event["user"],
        conversationId=event["conversation"],
        messages=[{"id": event["id"], "role": "ROLE_USER", "content": event["text"]}],
    )
    context = door.call(
        "RetrievalService/GetContext",
        userId=event["user"],
        query=event["text"],
        conversationId=event["conversation"],
        consistencyToken=stored["consistencyToken"],
    )
    return {"known": context.get("promptBlock", "")}


class WebhookReceiver(BaseHTTPRequestHandler):
    """Answers the posts of a webhook."""

    door: Door

    def do_POST(self) -> None:
        """Handle one event."""
        try:
            size = min(int(self.headers.get("content-length", 0)), MOST_BYTES)
            status, told = 200, handle(self.door, json.loads(self.rfile.read(size)))
        except CallFailed as error:
            # The sender repeats what failed for now: 429 and 503 are passed on.
            status, told = error.status, {"error": str(error)}
        except (ValueError, KeyError, TypeError) as error:
            status, told = 400, {"error": f"the event cannot be read: {error!r}"}
        body = json.dumps(told, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log the status only: requests name people."""
        print(f"webhook: {args[1] if len(args) > 1 else format}", file=sys.stderr)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Remember what webhooks deliver.")
    parser.add_argument("--door", default="http://127.0.0.1:8090", help="address of the HTTP door")
    parser.add_argument("--listen", default="127.0.0.1:9000", help="where webhooks are received")
    options = parser.parse_args()
    host, _, port = options.listen.rpartition(":")
    WebhookReceiver.door = Door(options.door, os.environ.get("HITHERTO_API_KEY", ""))
    with ThreadingHTTPServer((host, int(port)), WebhookReceiver) as server:
        print(f"listening on {host}:{server.server_port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
