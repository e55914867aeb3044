import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.config.schema import CONFIG, check, misfit_at
from agents.config.validation import Each, ObjectSpec

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=4)
    ),
    max_leaves=12,
)


def known_json(spec):
    """Trees with the right keys and any values: the wrong types everywhere."""
    match spec:
        case ObjectSpec():
            below = {name: known_json(each) for name, each in spec.known.items()}
            return st.fixed_dictionaries({}, optional=below) | JSON
        case Each():
            return st.dictionaries(st.text(max_size=5), known_json(spec.spec), max_size=2) | JSON
        case _:
            return JSON


def keys_of(tree) -> list[str]:
    _, misfits = check(tree)
    return [misfit.key for misfit in misfits]


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"options": "x"}, "options"),
        ({"options": {"debug": 1}}, "options.debug"),
        ({"options": {"context_paths": "x"}}, "options.context_paths"),
        ({"options": {"context_paths": ["a", 2]}}, "options.context_paths[1]"),
        ({"options": {"tui": []}}, "options.tui"),
        (
            {"options": {"tui": {"completions": {"max_depth": -1}}}},
            "options.tui.completions.max_depth",
        ),
        ({"models": {"large": {"max_tokens": True}}}, "models.large.max_tokens"),
        ({"models": {"large": {"model": "m" * 201}}}, "models.large.model"),
        ({"providers": {"x": {"models": [{"id": "m" * 201}]}}}, "providers.x.models[0].id"),
        ({"models": {"large": {"temperature": 3}}}, "models.large.temperature"),
        ({"models": {"large": {"top_p": -0.1}}}, "models.large.top_p"),
        ({"providers": []}, "providers"),
        ({"permissions": {"cut_calls": "ask"}}, "permissions.cut_calls"),
        ({"permissions": {"cut_calls": {"bash": "repeat"}}}, "permissions.cut_calls.bash"),
        ({"permissions": {"cut_calls": {"bash": ["ask"]}}}, "permissions.cut_calls.bash"),
        ({"providers": {"x": {"api_key": 5}}}, "providers.x.api_key"),
        ({"providers": {"x": {"models": [{"id": 1}]}}}, "providers.x.models[0].id"),
        (
            {"providers": {"x": {"models": [{"cost_per_1m_in": -1}]}}},
            "providers.x.models[0].cost_per_1m_in",
        ),
        ({"providers": {"x": {"extra_headers": {"H": 1}}}}, "providers.x.extra_headers.H"),
        ({"mcp": {"x": {"args": {}}}}, "mcp.x.args"),
        ({"lsp": {"x": {"disabled": "yes"}}}, "lsp.x.disabled"),
        ({"hooks": {"PreToolUse": [{"command": 1}]}}, "hooks.PreToolUse[0].command"),
        ({"permissions": {"allowed_tools": [None]}}, "permissions.allowed_tools[0]"),
        ({"providers": {"": {}}}, "providers.…"),
        ({"providers": {"a\nb": {}}}, "providers.…"),
        ({"options": {"request_timeout": 1e300}}, "options.request_timeout"),
    ],
)
def test_a_wrong_type_is_named_by_its_dotted_key(tree, key: str):
    assert keys_of(tree) == [key]


def test_the_rest_is_used():
    kept, misfits = check({"options": {"debug": "yes", "progress": True}, "models": 3})
    assert kept == {"options": {"progress": True}}
    assert len(misfits) == 2


def test_null_is_always_allowed():
    tree = {"options": None, "providers": {"x": None}, "models": {"large": {"think": None}}}
    assert check(tree) == (tree, ())


def test_whole_numbers_written_as_floats_are_whole():
    kept, misfits = check({"options": {"request_timeout": 2e1}})
    assert not misfits
    assert type(kept["options"]["request_timeout"]) is int


def test_unknown_keys_pass_inside_an_object_and_go_at_the_top():
    kept, misfits = check({"options": {"new": [1]}, "unknown": 1})
    assert kept == {"options": {"new": [1]}}
    assert not misfits


def test_one_value_can_be_judged_by_its_key():
    assert misfit_at(("options", "debug"), 1).key == "options.debug"
    assert misfit_at(("options", "debug"), True) is None


def test_no_message_carries_a_value():
    _, misfits = check({"providers": {"x": {"api_key": ["sk-secret"], "base_url": 12345}}})
    assert misfits
    assert not any("sk-secret" in str(m) or "12345" in str(m) for m in misfits)


@settings(max_examples=200)
@given(known_json(CONFIG))
def test_what_is_kept_fits_and_nothing_raises(tree):
    if not isinstance(tree, dict):
        return
    kept, _ = check(tree)
    again, misfits = check(kept)
    assert not misfits
    assert json.dumps(again) == json.dumps(kept)


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"models": {"large": {"model": "a\0b"}}}, "models.large.model"),
        ({"mcp": {"x": {"args": ["a", "\0"]}}}, "mcp.x.args[1]"),
        ({"mcp": {"x": {"env": {"A": "\0"}}}}, "mcp.x.env.A"),
        ({"options": {"data_directory": "\0"}}, "options.data_directory"),
        ({"hooks": {"PreToolUse": [{"command": "a\0"}]}}, "hooks.PreToolUse[0].command"),
    ],
)
def test_a_text_with_a_nul_character_is_dropped_and_named(tree, key: str) -> None:
    kept, misfits = check(tree)
    assert [(m.key, m.message) for m in misfits] == [(key, "must not hold a NUL character")]
    assert "x00" not in repr(kept)
