import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from agents.tools.limits import cut_line, cut_middle
from agents.tools.shell.output import BoundedOutput, readable


def test_it_keeps_short_output_whole() -> None:
    output = BoundedOutput(100)
    output.feed(b"hello ")
    output.feed(b"world")
    assert output.text() == "hello world"


def test_it_keeps_head_and_tail_and_says_what_is_between() -> None:
    output = BoundedOutput(20)
    output.feed(b"".join(b"%03d\n" % n for n in range(100)))
    assert output.text() == "000\n001\n\n... 384 bytes left out ...\n\n098\n099\n"


@given(st.lists(st.binary(max_size=50)), st.integers(2, 60))
def test_it_never_holds_more_than_its_bound(chunks: list[bytes], limit: int) -> None:
    output = BoundedOutput(limit)
    for chunk in chunks:
        assert output.feed(chunk)
    whole = b"".join(chunks)
    assert output.total == len(whole)
    if len(whole) <= limit:
        assert output.text() == readable(whole)
    else:
        assert "left out" in output.text()
    assert len(output.text()) < 3 * limit + 60


@given(st.lists(st.binary(max_size=50)), st.integers(2, 60), st.integers(2, 60))
def test_less_can_be_shown_than_is_kept(chunks: list[bytes], kept: int, shown: int) -> None:
    whole, less = BoundedOutput(kept), BoundedOutput(min(kept, shown))
    for chunk in chunks:
        whole.feed(chunk)
        less.feed(chunk)
    if kept % 2 == shown % 2 == 0:  # halves of odd sizes differ by one
        assert whole.text(shown) == less.text()
    assert len(whole.text(shown)) < 3 * shown + 60


def test_it_costs_bounded_memory() -> None:
    output, chunk = BoundedOutput(1_000), b"x" * 10_000
    tracemalloc.start()
    try:
        for _ in range(2_000):
            output.feed(chunk[:999])
            output.feed(chunk)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_it_makes_any_bytes_readable() -> None:
    assert readable(b"a\0b\xff") == "a\ufffdb\ufffd"


def test_it_cuts_text_in_the_middle() -> None:
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("a" * 50 + "b" * 50, 10) == "aaaaa\n\n... 90 characters left out ...\n\nbbbbb"


def test_it_cuts_a_line_at_its_end() -> None:
    assert cut_line("abc", 3) == "abc"
    assert cut_line("abcd", 3) == "abc... [1 more characters in this line]"
