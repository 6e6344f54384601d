"""What an import holds, and what a language model would take to learn from it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from hitherto_client.importers import ExportReport

_BYTES_OF_A_TOKEN = 4
"""Of English text; other scripts have two to three bytes a character and about as many a token."""
_PROMPT_TOKENS = 2_200
"""What a prompt holds besides the conversation: instructions, known memories, the profile."""
_REPLY_TOKENS = 350
_MESSAGES_OF_A_PROMPT = 200
_SHOWN = 20


def left_out(report: ExportReport) -> list[str]:
    """What of an export is not imported, for people."""
    found = []
    if report.notices:
        found.append(f"{report.notices:,} lines are notices or stand for pictures: left out")
    if report.empty:
        found.append(f"{report.empty:,} records hold nothing that is imported: left out")
    if report.of_others:
        found.append(f"{report.of_others:,} records are of other people: left out")
    if report.timeless:
        found.append(
            f"{report.timeless:,} memories have no time and count as known from the import on;"
            " --undated names another day"
        )
    return found


def prices(text: str) -> tuple[float, float]:
    """US dollars per million tokens of input and of output, as `0.15,0.60`."""
    try:
        given, written = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no pair of prices such as 0.15,0.60"
        ) from None
    if given < 0 or written < 0:
        raise argparse.ArgumentTypeError("prices are not negative")
    return given, written


@dataclass(slots=True)
class ImportPlan:
    """The contents of an import, counted.

    Attributes:
        price: US dollars per million tokens of input and of output.
    """

    price: tuple[float, float]
    conversations: int = 0
    messages: int = 0
    by_user: int = 0
    memories: int = 0
    text_bytes: int = 0
    prompts: int = 0
    unreadable: int = 0
    """Lines that hold no JSON object, or one that is no transcript or memory."""
    undated: int = 0
    """Messages without a time, which count as said at the import."""
    reports: list[ExportReport] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    """The first and the last time, once there is one."""

    def count(self, record: dict[str, Any]) -> None:
        """Count one record."""
        messages = record.get("messages")
        if not isinstance(messages, list):
            self.memories += 1
            self.text_bytes += len(str(record.get("content", "")).encode("utf-8", "replace"))
            self._note(record.get("valid_from"))
            return
        self.conversations += 1
        self.messages += len(messages)
        self.prompts += -(-len(messages) // _MESSAGES_OF_A_PROMPT)
        for message in messages:
            if isinstance(message, dict):
                self.by_user += str(message.get("role", "")).lower().endswith("user")
                text = str(message.get("content", ""))
                self.text_bytes += len(text.encode("utf-8", "replace"))
                self.undated += not message.get("created_at")
                self._note(message.get("created_at"))

    def leave_out(self, report: ExportReport) -> None:
        """Count what of an export is not imported."""
        self.reports.append(report)

    def _note(self, time: object) -> None:
        if isinstance(time, str) and time:
            self.times = [min([time, *self.times[:1]]), max([time, *self.times[1:]])]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of input and of output that learning takes, roughly."""
        if not self.prompts:
            return 0, 0
        read = self.text_bytes // _BYTES_OF_A_TOKEN + _PROMPT_TOKENS * self.prompts
        return read, _REPLY_TOKENS * self.prompts

    @property
    def dollars(self) -> float:
        """What that costs."""
        return sum(n * price / 1e6 for n, price in zip(self.tokens, self.price, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        given, written = self.tokens
        return {
            "conversations": self.conversations,
            "messages": self.messages,
            "messages_of_the_user": self.by_user,
            "memories": self.memories,
            "first": self.times[0] if self.times else "",
            "last": self.times[1] if self.times else "",
            "unreadable_lines": self.unreadable,
            "undated_messages": self.undated,
            "undated_memories": sum(each.timeless for each in self.reports),
            "undated_conversations": [name for each in self.reports for name in each.undated],
            "notices": sum(each.notices for each in self.reports),
            "empty_records": sum(each.empty for each in self.reports),
            "records_of_others": sum(each.of_others for each in self.reports),
            "text_bytes": self.text_bytes,
            "estimated_input_tokens": given,
            "estimated_output_tokens": written,
            "estimated_usd": round(self.dollars, 4),
        }

    def lines(self) -> list[str]:
        """The plan for people."""
        given, written = self.tokens
        found = [
            f"{self.conversations:,} conversations with {self.messages:,} messages, of which the"
            f" user wrote {self.by_user:,}; {self.memories:,} memories"
        ]
        if self.times:
            found.append(f"from {self.times[0][:10]} to {self.times[1][:10]}")
        if self.unreadable:
            found.append(f"{self.unreadable:,} lines would be refused; the import names them")
        if self.undated:
            found.append(
                f"{self.undated:,} messages have no `created_at` and would count as said at the"
                " import"
            )
        for report in self.reports:
            found += [
                f"{name} says nowhere when it was held and would be refused: name a day for such"
                " conversations with --undated"
                for name in report.undated[:_SHOWN]
            ]
            if (more := len(report.undated) - _SHOWN) > 0:
                found.append(f"so would {more:,} more; --json names all")
            found += left_out(report)
        if self.prompts:
            found.append(
                f"learning takes about {given:,} tokens of input and {written:,} of output: about"
                f" {self.dollars:,.2f} US dollars at {self.price[0]:g} and {self.price[1]:g} per"
                " million. Without a language model it costs nothing."
            )
        found.append("nothing was sent")
        return found
