"""The proxy in the environment for an address: `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.

It is the same choice as the openai client's, so that all calls of a process use the same proxy. The
address does not change, so the choice is made once.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies

from yarl import URL


def proxy_for(url: URL) -> URL | None:
    """The proxy for requests to `url`, or None without one.

    Raises:
        ValueError: It is of an unsupported kind; the message names the variable.
    """
    # Both spellings of the variables; on macOS and Windows also what the system is set to.
    named = getproxies()
    address = named.get(url.scheme) or named.get("all")
    if not address:
        return None
    if any(_matches(entry.strip().lower(), url) for entry in named.get("no", "").split(",")):
        return None
    try:
        proxy = URL(address if "://" in address else f"http://{address}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in ("http", "https") or not proxy.raw_host:
        # The address may contain a password, so it is not repeated.
        raise ValueError(
            f"{url.scheme.upper()}_PROXY or ALL_PROXY must be the address of an HTTP proxy, such "
            "as http://proxy.example:3128; add the model server to NO_PROXY to bypass it"
        )
    return proxy


def _matches(entry: str, url: URL) -> bool:
    """Whether an entry of `NO_PROXY`, in lower case, matches the server of `url`."""
    if entry in ("", "*"):
        return entry == "*"
    scheme, _, rest = entry.rpartition("://")
    if scheme not in ("", "all", url.scheme):
        return False
    host = (url.host or "").lower()
    try:
        return ip_address(host) in ip_network(rest.strip("[]"), strict=False)
    except ValueError:
        pass  # One of them is a name, or the entry has a port.
    try:
        parts = urlsplit(f"//{rest}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not name or port not in (None, url.port):
        return False
    domain = name.removeprefix("*")
    return host.endswith(domain) if domain.startswith(".") else f".{host}".endswith(f".{domain}")
