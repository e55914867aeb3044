import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.config.merge import merge

TREES = st.dictionaries(
    st.sampled_from(["models", "options", "large", "a", "b"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "large", "model"]), below, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


def test_objects_merge_and_the_rest_is_replaced():
    under = {"options": {"debug": True, "tui": {"compact_mode": True}}, "x": [1, 2]}
    over = {"options": {"tui": {"mouse": False}}, "x": [3]}
    assert merge(under, over) == {
        "options": {"debug": True, "tui": {"compact_mode": True, "mouse": False}},
        "x": [3],
    }


def test_some_lists_grow_without_doubles():
    under = {"permissions": {"allowed_tools": ["view", "ls"]}, "options": {"context_paths": ["A"]}}
    over = {"permissions": {"allowed_tools": ["ls", "bash"]}, "options": {"context_paths": ["B"]}}
    merged = merge(under, over)
    assert merged["permissions"]["allowed_tools"] == ["view", "ls", "bash"]
    assert merged["options"]["context_paths"] == ["A", "B"]


def test_a_project_cannot_take_away_its_users_hooks():
    guard, other = {"command": "guard"}, {"command": "other"}
    merged = merge({"hooks": {"PreToolUse": [guard]}}, {"hooks": {"PreToolUse": [other]}})
    assert merged["hooks"]["PreToolUse"] == [guard, other]


def test_null_takes_away_what_lies_below():
    assert merge({"mcp": {"a": {}, "b": {}}}, {"mcp": {"a": None}}) == {"mcp": {"b": {}}}
    assert merge({}, {"mcp": {"a": None}}) == {"mcp": {}}


def test_an_object_replaces_text_and_text_an_object():
    assert merge({"a": "x"}, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert merge({"a": {"b": 1}}, {"a": "x"}) == {"a": "x"}


def test_another_model_does_not_inherit_the_settings_of_the_last():
    under = {"models": {"large": {"provider": "a", "model": "b", "think": True, "max_tokens": 9}}}
    over = {"models": {"large": {"provider": "c", "model": "d"}}}
    assert merge(under, over) == over


@pytest.mark.parametrize("key", ["model", "provider"])
def test_one_half_of_another_choice_inherits_nothing_either(key):
    """A model chosen for the same provider does not keep the effort of the last one."""
    under = {"models": {"large": {"provider": "a", "model": "b", "reasoning_effort": "high"}}}
    over = {"models": {"large": {key: "c"}}}
    assert merge(under, over) == over


def test_a_setting_alone_changes_the_chosen_model():
    under = {"models": {"large": {"provider": "a", "model": "b"}}}
    merged = merge(under, {"models": {"large": {"think": True}}})
    assert merged["models"]["large"] == {"provider": "a", "model": "b", "think": True}


@given(TREES, TREES)
def test_neither_side_is_changed(under, over):
    before = copy.deepcopy((under, over))
    merge(under, over)
    assert (under, over) == before


@given(TREES, TREES)
def test_laying_the_same_twice_changes_nothing_more(under, over):
    once = merge(under, over)
    assert merge(once, over) == once


@given(TREES)
def test_nothing_laid_over_changes_nothing(tree):
    assert merge(tree, {}) == tree
