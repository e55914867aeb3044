import asyncio
import sys

import pytest
import uvloop

from crushsite import runtime


def loop_of_main() -> asyncio.AbstractEventLoop:
    found: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        found.append(asyncio.get_running_loop())

    runtime.run(main())
    (loop,) = found
    assert loop.is_closed()
    return loop


def test_a_server_lives_in_uvloop() -> None:
    assert isinstance(loop_of_main(), uvloop.Loop)


def test_without_uvloop_it_lives_in_the_standard_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)  # how Python spells "not to be had"

    assert isinstance(loop_of_main(), asyncio.SelectorEventLoop)


def test_what_main_raises_is_the_callers() -> None:
    async def main() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        runtime.run(main())
