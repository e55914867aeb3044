"""A web address as the tools take it: http or https, a host, no account.

It is parsed once, by the parser of the HTTP client: a second one with another
opinion of where the host ends would be a way around every check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_URL_BYTES

if TYPE_CHECKING:
    from yarl import URL


def web_url(written: str) -> URL:
    """Without its fragment. Raises ``ToolRefusal`` that does not repeat an account."""
    from yarl import URL  # noqa: PLC0415  not needed before the first use of the web

    written = written.strip()
    if len(written.encode(errors="replace")) > MAX_URL_BYTES:
        raise ToolRefusal(f"The URL is longer than {MAX_URL_BYTES:,} bytes.")
    if not written.lower().startswith(("http://", "https://")):
        raise ToolRefusal("The URL must begin with http:// or https://.")
    if any(letter <= " " or letter == "\x7f" for letter in written):
        raise ToolRefusal("The URL holds white space or control characters.")
    try:
        return checked(URL(written))
    except (ValueError, UnicodeError):
        raise ToolRefusal("The URL cannot be understood.") from None


def checked(url: URL) -> URL:
    """Raises ``ToolRefusal``."""
    try:
        host, port = url.host, url.port
    except ValueError:
        raise ToolRefusal("The URL's port is not a number below 65536.") from None
    if url.scheme not in ("http", "https"):
        raise ToolRefusal(f"Only http and https are supported, not {url.scheme or 'no scheme'}.")
    if url.user is not None or url.password is not None:
        raise ToolRefusal("The URL holds an account, which is not sent: leave it out.")
    if not host or "%" in host or len(host) > 253:
        raise ToolRefusal("The URL has no valid host.")
    if not port:
        raise ToolRefusal("The URL's port is not valid.")
    return url.with_fragment(None)
