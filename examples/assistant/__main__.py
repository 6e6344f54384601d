"""The assistant in a terminal: `python -m examples.assistant --user maren`.

Needs both services (`make run`) and a chat model: OPENAI_API_KEY, or OPENAI_BASE_URL of a
compatible server; CHAT_MODEL names the model (gpt-4o-mini).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from openai import OpenAI

from examples.assistant.actions import RecordedExecutor
from examples.assistant.chat import Assistant, AssistantReply, AssistantRequest
from examples.assistant.model import Model
from hitherto_client import Hitherto


def show(reply: AssistantReply) -> None:
    """Print a reply, with what it needs from the user."""
    print(f"\n{reply.response}")
    if reply.clarification is not None and reply.clarification.options:
        print("  " + " | ".join(reply.clarification.options))
    for used in reply.context_used[:5]:
        print(f"  based on [{used.source}] {used.title} ({used.relevance:.2f})")
    for action in reply.pending_actions:
        print(f"  to confirm: {action['description']}   yes {action['id']}")


def main() -> None:
    """Chat until the end of the input."""
    parser = argparse.ArgumentParser(prog="python -m examples.assistant", description=__doc__)
    parser.add_argument("--user", required=True, help="on whose behalf")
    parser.add_argument(
        "--actions", type=Path, default=Path("actions.jsonl"), help="record of what was confirmed"
    )
    asked = parser.parse_args()
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        parser.exit(2, "set OPENAI_API_KEY, or OPENAI_BASE_URL of a compatible server\n")
    client = OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or "none")
    model = Model(client, os.environ.get("CHAT_MODEL") or "gpt-4o-mini")
    with Hitherto() as memory:
        assistant = Assistant(memory, model, RecordedExecutor(asked.actions))
        for suggestion in assistant.greet(asked.user):
            print(f"• {suggestion}")
        session, waiting = "", False
        while True:
            try:
                line = input("\nyou: ").strip()
            except (EOFError, KeyboardInterrupt):
                break
            if not line:
                continue
            if line.startswith("yes "):
                request = AssistantRequest(
                    asked.user, session_id=session, confirm_actions=tuple(line.split()[1:])
                )
            elif waiting:
                request = AssistantRequest(
                    asked.user, session_id=session, clarification_response=line
                )
            else:
                request = AssistantRequest(asked.user, line, session)
            reply = assistant.answer(request)
            session, waiting = reply.session_id, reply.needs_clarification
            show(reply)
        if session:
            memory.end_conversation(asked.user, session)


if __name__ == "__main__":
    main()
