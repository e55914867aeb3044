"""Which HTTP proxy an address is reached by, from the usual variables.

Pure. Loopback addresses never go through a proxy: a local model is local.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_loopback(host):
        return None
    names = (f"{parts.scheme}_proxy", "all_proxy")
    proxy = next((value for name in names if (value := _either(env, name))), "")
    if not proxy.startswith(("http://", "https://")):
        return None  # others are not spoken here
    return None if _is_bypassed(host, _either(env, "no_proxy")) else proxy


def _is_bypassed(host: str, no_proxy: str) -> bool:
    """``NO_PROXY``: names that stand for themselves and all below them, or ``*``."""
    for entry in no_proxy.lower().split(","):
        name = entry.strip().partition(":")[0].removeprefix("*").lstrip(".")
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False


def _either(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
