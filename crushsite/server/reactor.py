"""Twisted's one reactor, made to run in the event loop that is running already.

Daphne gives the reactor a loop of its own and runs that. Here the caller owns the
loop, so the reactor follows it; it is never "run", and it handles no signals.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from daphne import server as daphne_server  # installs an asyncio reactor
from twisted.internet import reactor as _installed
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.logger import LogLevel, formatEvent, globalLogBeginner

from crushsite.server.descriptors import DescriptorLoop

logger = logging.getLogger(__name__)

_is_logging = False


def reactor_in(loop: asyncio.AbstractEventLoop) -> AsyncioSelectorReactor:
    """The reactor, moved to ``loop`` with its pending timers. Raises on another kind of reactor."""
    reactor: Any = _installed
    if not isinstance(reactor, AsyncioSelectorReactor):
        raise RuntimeError("another reactor of Twisted is installed; the server needs asyncio's")
    _pass_on_failures()
    before: asyncio.AbstractEventLoop | DescriptorLoop = reactor._asyncioEventloop
    if isinstance(before, DescriptorLoop) and before.loop is loop:
        return reactor
    _move(reactor, before, DescriptorLoop(loop))
    if before is daphne_server.twisted_loop or isinstance(before, DescriptorLoop):
        before.close()  # Daphne's own never ran
    return reactor


def _move(
    reactor: Any, before: asyncio.AbstractEventLoop | DescriptorLoop, after: DescriptorLoop
) -> None:
    fds = dict(reactor._readers)
    for descriptor, fd in fds.items():
        if not before.is_closed():
            before.remove_reader(fd)
        del reactor._readers[descriptor]
    if reactor._timerHandle is not None:
        reactor._timerHandle.cancel()
        reactor._timerHandle = None
    reactor._scheduledAt = None
    reactor._asyncioEventloop = after
    if reactor.waker is not None:
        reactor.addReader(reactor.waker)
    reactor._reschedule()


def _pass_on_failures() -> None:
    """Twisted's own log: what failed goes to ours, the rest nowhere."""
    global _is_logging
    if not _is_logging:
        _is_logging = True
        observer: Any = _observe
        globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)


def _observe(event: dict[str, Any]) -> None:
    level = event.get("log_level", LogLevel.info)
    if level < LogLevel.error:
        return
    failure = event.get("log_failure")
    info = (failure.type, failure.value, failure.getTracebackObject()) if failure else None
    logger.error("%s", formatEvent(event), exc_info=info)
