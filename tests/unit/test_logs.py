"""A record is one line, whatever stands in it."""

import json
import logging
import re
import sys

import pytest
from django.db import OperationalError

from crushsite.logs import JsonFormatter, LineFormatter, OutageFilter
from workspaces.log.errors import DatabaseUnreachable
from workspaces.log.log_throttle import LogThrottle


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


def failed(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception:
        return logging.LogRecord(
            "app.part", logging.ERROR, __file__, 1, "%s failed", ("this",), sys.exc_info()
        )


@pytest.mark.parametrize(
    "error", [DatabaseUnreachable("refused 100%"), OperationalError("database is locked")]
)
def test_an_absent_database_is_one_line_a_second_without_a_stack_trace(error: Exception) -> None:
    records = [failed(error) for _ in range(50)]
    outage_filter = OutageFilter(database=LogThrottle())
    admitted = [record for record in records if outage_filter.filter(record)]
    assert len(admitted) == 1
    told = LineFormatter().format(admitted[0])
    assert told.endswith(f"error app.part this failed: {error}")


def test_a_mistake_of_ours_keeps_its_stack_trace() -> None:
    records = [failed(ValueError("wrong")) for _ in range(5)]
    assert all(OutageFilter().filter(record) for record in records)
    assert "Traceback" in LineFormatter().format(records[0])


def test_a_record_that_cannot_be_formatted_is_still_a_line() -> None:
    record = logging.LogRecord("app.part", logging.ERROR, __file__, 1, "%d runs", ("x",), None)
    told = LineFormatter().format(record)
    assert told == "error app.part '%d runs' (not formatted: TypeError)"


def as_json(message: str, **more: object) -> dict[str, object]:
    record = logging.LogRecord("app.part", logging.INFO, __file__, 1, message, None, None)
    record.__dict__.update(more)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert text.isascii()
    return dict(json.loads(text))


def test_json_has_the_same_fields_by_name() -> None:
    found = as_json("run started", session="s1", run=7, run_id="my-run", client="", other="x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(found.pop("time")))
    assert found == {
        "level": "info",
        "logger": "app.part",
        "message": "run started",
        "session": "s1",
        "run": "7",
        "run_id": "my-run",
    }


def test_json_escapes_what_others_chose_and_cuts_long_ids() -> None:
    forged = 'r"}\n{"level": "error"\x1b[31m\ud800'
    assert as_json(forged, run=forged)["message"] == forged
    assert len(str(as_json("x", run="r" * 10_000)["run"])) == 200


def test_json_has_the_stack_trace_in_a_field() -> None:
    found = json.loads(JsonFormatter().format(failed(ValueError("wrong"))))
    assert found["message"] == "this failed"
    assert found["exception"].endswith("ValueError: wrong")


def test_a_record_that_cannot_be_formatted_is_still_json() -> None:
    record = logging.LogRecord("app.part", logging.ERROR, __file__, 1, "%d runs", ("x",), None)
    found = json.loads(JsonFormatter().format(record))
    assert found == {
        "level": "error",
        "message": "error app.part '%d runs' (not formatted: TypeError)",
    }
