"""Each stamped word is counted once, with the time that it took."""

import pytest

from tests.bench.watch import Watch


def _words(*micros: int) -> bytes:
    return b"".join(b"@%016d " % m for m in micros)


_SECOND = 1_000_000
_T = 1_790_000_000 * _SECOND


def _line(*micros: int) -> bytes:
    return b'data: {"text":"' + _words(*micros) + b'"}'


async def test_it_counts_only_words_that_are_new_in_a_snapshot() -> None:
    watch = Watch()
    at = _T / _SECOND
    watch.snapshot("s", _line(_T - 5_000), at)
    watch.snapshot("s", _line(_T - 5_000, _T - 3_000, _T - 2_000), at)
    watch.snapshot("s", _line(_T - 5_000, _T - 3_000, _T - 2_000), at)
    assert watch.lags_ms == pytest.approx([5, 3, 2], abs=0.01)
    assert watch.words == {"s": 3}


async def test_it_finds_words_with_something_between_them() -> None:
    watch = Watch()
    watch.snapshot("s", b"x" + _words(_T) + b"and " + _words(_T), _T / _SECOND)
    assert watch.word_count == 2


async def test_it_notes_when_the_first_word_of_each_session_came() -> None:
    watch = Watch()
    watch.snapshot("a", _line(_T), 1.0)
    watch.snapshot("a", _line(_T, _T), 2.0)
    watch.snapshot("b", _line(_T), 3.0)
    assert watch.first == {"a": 1.0, "b": 3.0}


async def test_it_ignores_a_line_without_words() -> None:
    watch = Watch()
    watch.snapshot("s", b'data: {"type":"session"}', 1.0)
    assert (watch.words, watch.first) == ({}, {})


async def test_waiting_says_when_it_was_in_vain() -> None:
    watch = Watch()
    assert not await watch.wait(lambda w: "s" in w.done, timeout=0.01)
    watch.run_ended("s", 1.0)
    assert await watch.wait(lambda w: "s" in w.done, timeout=0.01)
