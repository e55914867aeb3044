"""A record is one line, whatever stands in it."""

import logging

from crushsite.logs import LineFormatter


def line(message: str, **concerns: object) -> str:
    record = logging.LogRecord("app.part", logging.INFO, __file__, 1, message, None, None)
    record.__dict__.update(concerns)
    return LineFormatter().format(record)


def test_it_tells_the_level_the_place_and_what_it_concerns() -> None:
    told = line("run started", workspace="w1", session="s1", run=7, client="", other="x")
    _, _, rest = told.partition("Z ")
    assert rest == "info app.part run started workspace=w1 session=s1 run=7"


def test_what_others_chose_stays_in_its_own_word() -> None:
    forged = "r\n2026-01-01T00:00:00.000Z error app.part forged session=evil"
    told = line("run started", session="s1", run=forged)
    assert "\n" not in told
    assert told.endswith('run="r\\n2026-01-01T00:00:00.000Z error app.part forged session=evil"')


def test_control_characters_and_broken_text_are_spelled_out() -> None:
    told = line("opened /a\r\nb\x1b[31m\u202e\ud800", run='a"b')
    assert told.isprintable()
    assert told.endswith('opened /a\\r\\nb\\x1b[31m\\u202e\\ud800 run="a\'b"')


def test_a_long_value_is_cut() -> None:
    assert len(line("x", run="r" * 10_000)) < 400
