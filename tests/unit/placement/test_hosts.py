"""Hosts without any process of the server, by what each look finds."""

from __future__ import annotations

from workspaces.placement.hosts import PAUSE_SECONDS, AbandonedHosts

THERE, GONE = "alpha pid:[1]", "beta pid:[2]"
LIVE = [("alpha", THERE)]


def test_a_host_is_abandoned_after_its_time_without_a_process() -> None:
    hosts = AbandonedHosts(10.0)
    assert hosts.find([THERE, GONE], LIVE, 0.0) == frozenset()
    assert hosts.find([THERE, GONE], LIVE, 9.0) == frozenset()
    assert hosts.find([THERE, GONE], LIVE, 10.0) == {GONE}
    assert hosts.find([THERE], LIVE, 11.0) == frozenset()


def test_a_host_that_has_returned_has_its_whole_time_again() -> None:
    hosts = AbandonedHosts(10.0)
    hosts.find([GONE], LIVE, 0.0)
    hosts.find([GONE], [*LIVE, ("beta", GONE)], 5.0)
    assert hosts.find([GONE], LIVE, 11.0) == frozenset()
    assert hosts.find([GONE], LIVE, 21.0) == {GONE}


def test_after_a_pause_every_host_has_its_whole_time_again() -> None:
    hosts = AbandonedHosts(10.0)
    hosts.find([GONE], LIVE, 0.0)
    after = PAUSE_SECONDS + 1
    assert hosts.find([GONE], LIVE, after) == frozenset()
    assert hosts.find([GONE], LIVE, after + 10) == {GONE}


def test_a_container_with_the_same_name_is_another_host() -> None:
    hosts = AbandonedHosts(0.0)
    assert hosts.find([THERE], [("alpha", "alpha pid:[7]")], 0.0) == {THERE}


def test_a_process_of_an_earlier_release_counts_for_the_name_of_its_host() -> None:
    hosts = AbandonedHosts(0.0)
    assert hosts.find([THERE, GONE], [("alpha", "")], 0.0) == {GONE}
