"""Memory as tools of a language model: definitions in the formats of model APIs, and a dispatcher.

Example:
    toolbox = Toolbox(Hitherto(api_key=key_of_ana), "ana")
    reply = openai.chat.completions.create(model=…, messages=messages, tools=openai_tools())
    for tool_call in reply.choices[0].message.tool_calls or ():
        result = toolbox.call(tool_call.function.name, tool_call.function.arguments)
"""

from hitherto_client.tools.definitions import (
    GUIDE,
    MCP_GUIDE,
    MCP_TOOLS,
    TOOLS,
    Tool,
    anthropic_tools,
    openai_tools,
)
from hitherto_client.tools.toolbox import Toolbox, ToolResult, UnboundCredentialError

__all__ = [
    "GUIDE",
    "MCP_GUIDE",
    "MCP_TOOLS",
    "TOOLS",
    "Tool",
    "ToolResult",
    "Toolbox",
    "UnboundCredentialError",
    "anthropic_tools",
    "openai_tools",
]
