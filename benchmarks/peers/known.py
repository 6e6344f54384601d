"""The peers, and why one is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """Another memory store.

    Attributes:
        name: Its package.
        requirements: What is installed.
        module: Runs it; empty for one that is left out.
        left_out: Why.
    """

    name: str
    requirements: Sequence[str]
    module: str = ""
    left_out: str = ""


PEERS = (
    Peer(
        "mem0ai",
        ("mem0ai>=2.2,<2.3", "psycopg[binary,pool]>=3.2,<4"),
        "benchmarks.peers.mem0_peer",
    ),
    Peer(
        "langgraph-checkpoint-postgres",
        ("langgraph-checkpoint-postgres>=3.2,<3.3", "langgraph", "psycopg[binary,pool]>=3.2,<4"),
        "benchmarks.peers.langgraph_peer",
    ),
    Peer(
        "hindsight-api",
        (),
        left_out="its package brings PyTorch with the CUDA libraries, several gigabytes",
    ),
)
