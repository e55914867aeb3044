"""The table of provider kinds: each name of a file leads to a wire that exists."""

import ast
from pathlib import Path

import pytest

import agents.config
from agents.config.providers.catalogue import known_clouds, known_providers, known_services
from agents.config.providers.kinds import BUILT_IN, BY_NAME, SERVED, provisioned_kind
from agents.config.settings import ProviderSettings
from agents.llm.providers import provider_for


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_each_name_leads_to_a_wire(name: str) -> None:
    assert BY_NAME[name].kind in SERVED
    provider_for(ProviderSettings("mine", "Mine", BY_NAME[name].kind, "http://127.0.0.1:9/v1"), {})


def test_each_name_stands_in_the_table_once() -> None:
    spellings = [spelling for kind in BY_NAME.values() for spelling in kind.provisioned_as]
    assert len(spellings) == len(set(spellings))
    assert not set(spellings) & set(BY_NAME)


def test_built_in_kinds_have_neither_address_nor_wire() -> None:
    assert {"local", "offline"} == BUILT_IN
    assert not any(BY_NAME[name].address or BY_NAME[name].wire for name in BUILT_IN)


@pytest.mark.parametrize(
    "known",
    [*known_providers().values(), *known_clouds().values(), *known_services().values()],
    ids=lambda known: known.id,
)
def test_each_known_provider_has_a_served_kind(known) -> None:
    assert known.kind in SERVED


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("", "openai-compat"),
        ("openai_compat", "openai-compat"),
        ("openai_compatible", "openai-compat"),
        ("openai-compatible", "openai-compat"),
        ("openai_responses", "openai-responses"),
        ("google", "gemini"),
        ("anthropic", "anthropic"),
        # Not resolved here: a provider of this name may be known.
        ("groq", "groq"),
        ("something else", "something else"),
    ],
)
def test_provisioning_documents_spell_kinds_in_more_ways(written: str, kind: str) -> None:
    assert provisioned_kind(written) == kind


def test_there_is_no_second_table_of_kinds() -> None:
    root = Path(agents.config.__file__).parents[2]
    tables = [
        f"{file.relative_to(root)}:{node.lineno}"
        for app in ("agents", "crushsite", "permissions", "workspaces")
        for file in (root / app).rglob("*.py")
        if file.name != "kinds.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List)
        and {"openai-compat", "openai-responses"}
        <= {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    ]
    assert tables == []
