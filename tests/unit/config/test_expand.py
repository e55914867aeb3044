import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.config.expand import LENGTH_LIMIT, expand, variables

VALUES = {"A": "alpha", "B_2": "beta", "EMPTY": "", "DOLLAR": "$A"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("$A", "alpha"),
        ("${A}", "alpha"),
        ("$A$B_2", "alphabeta"),
        ("x-$A-y", "x-alpha-y"),
        ("${A}lpha", "alphalpha"),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "alpha"),
        ("${NONE:-}", ""),
        ("${NONE:-$A}", "alpha"),
        ("${NONE:-${NEITHER:-deep}}", "deep"),
        ("${NONE:-x}y}", "xy}"),
        ("$EMPTY", ""),
        ("$$A", "$A"),
        ("$$$A", "$alpha"),
        ("$${A}", "${A}"),
        ("$DOLLAR", "$A"),  # a value is never expanded again
        ("cost $5", "cost $5"),
        ("end$", "end$"),
        ("^a$|b", "^a$|b"),
    ],
)
def test_it_expands(text: str, expected: str):
    expanded = expand(text, VALUES.get)
    assert expanded.text == expected
    assert expanded.whole


def test_unset_variables_are_named_once_and_in_order():
    expanded = expand("$X$Y$X${Z}", VALUES.get)
    assert expanded.unset == ("X", "Y", "Z")
    assert not expanded.whole


@pytest.mark.parametrize("text", ["$(cat key)", "$(id)$A", "${", "${}", "${1}", "${A", "${A:?no}"])
def test_what_it_does_not_do_is_left_and_told(text: str):
    expanded = expand(text, VALUES.get)
    assert expanded.unread
    assert expanded.text.startswith(text[:2])


def test_no_command_is_run(tmp_path):
    file = tmp_path / "made"
    expanded = expand(f"$(touch {file})", VALUES.get)
    assert expanded.text == f"$(touch {file})"
    assert not file.exists()


def test_a_short_text_cannot_grow_without_end():
    expanded = expand("$A" * 1_000, {"A": "x" * 10_000}.get)
    assert len(expanded.text) <= LENGTH_LIMIT
    assert not expanded.whole


@pytest.mark.parametrize("piece", ["${A:-", "${", "${A", "$(", "${A:-}"])
def test_hostile_text_is_read_in_good_time(piece: str):
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    expand(text, VALUES.get)
    assert time.process_time() - started < 5


def test_a_result_does_not_print_its_text():
    assert "alpha" not in repr(expand("$A", VALUES.get))


@given(st.text(alphabet="${}:-()AB \\", max_size=60))
def test_it_never_raises(text: str):
    expand(text, VALUES.get)


@given(st.text().filter(lambda text: "$" not in text))
def test_text_without_a_dollar_stays(text: str):
    assert expand(text, VALUES.get).text == text


@given(st.text(max_size=50))
def test_doubling_the_dollars_keeps_any_text(text: str):
    expanded = expand(text.replace("$", "$$"), VALUES.get)
    assert expanded.text == text
    assert expanded.whole


def test_the_clients_variables_come_before_the_servers():
    lookup = variables({"A": "client", "E": ""}, {"A": "server", "E": "server", "B": "server"})
    assert (lookup("A"), lookup("B"), lookup("C")) == ("client", "server", None)
    assert lookup("E") == ""


@pytest.mark.parametrize(
    "name",
    ["DATABASE_URL", "REDIS_URL", "SECRET_KEY", "CRUSH_SECRET_KEY", "DJANGO_SETTINGS_MODULE"],
)
def test_the_servers_own_secrets_are_not_variables(name: str):
    assert variables({}, {name: "secret"})(name) is None
    assert variables({name: "mine"}, {name: "secret"})(name) == "mine"
