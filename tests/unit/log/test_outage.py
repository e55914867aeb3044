"""What a process knows of its database's absence."""

import logging

import pytest

from tests.unit.log.test_log_throttle import Clock
from workspaces.log.outage import Outage, one_line


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_writes_one_line_a_second_and_one_at_the_end(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(clock=clock)
    with caplog.at_level(logging.DEBUG):
        for _ in range(40):
            outage.report(ConnectionError("connection refused\n  Is the server running?"))
            clock.now += 0.1
        outage.report_end()
        outage.report_end()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 5
    refused = "connection refused Is the server running?"
    assert lines[0] == f"the database cannot be used: {refused}"
    assert lines[-1] == "the database can be used again after 4.0 s"
    assert not any(record.exc_info for record in caplog.records)


def test_requests_wait_for_a_restart_and_not_for_more(clock: Clock) -> None:
    outage = Outage(clock=clock)
    assert not outage.is_long
    outage.report(ConnectionError("refused"))
    assert not outage.is_long
    clock.now += 1.1
    assert outage.is_long
    outage.report_end()
    assert not outage.is_long


def test_it_is_recent_until_others_had_time_to_renew(clock: Clock) -> None:
    outage = Outage(clock=clock)
    assert not outage.is_recent(5)
    outage.report(ConnectionError("refused"))
    clock.now += 60
    assert outage.is_recent(5)
    outage.report_end()
    clock.now += 4
    assert outage.is_recent(5)
    clock.now += 2
    assert not outage.is_recent(5)


def test_an_error_is_one_line_of_bounded_length() -> None:
    assert one_line(ValueError("a\n  b\tc")) == "a b c"
    assert one_line(ValueError("x" * 1_000)) == "x" * 300
    assert one_line(ValueError()) == "ValueError"
