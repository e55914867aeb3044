import json
import os
import stat
import threading
from pathlib import Path

import pytest

from agents.config.edits.choices import (
    StoredScope,
    parse_key,
    remove_value,
    set_model,
    set_provider_key,
    set_value,
    stored_file,
)
from agents.config.edits.file import (
    BrokenStoredFile,
    InvalidKey,
    InvalidScope,
    InvalidValue,
    NotWritable,
    StoredConfigError,
)


class Store:
    def __init__(self, place):
        self.place = place
        self.kept = {"data_dir": str(place.data_dir), "server_env": place.server_env}

    def set(self, key: str, value: object, scope: StoredScope = StoredScope.WORKSPACE) -> None:
        set_value(scope, key, value, **self.kept)

    def remove(self, key: str, scope: StoredScope = StoredScope.WORKSPACE) -> None:
        remove_value(scope, key, **self.kept)

    def model(self, kind: str, model: dict, scope: StoredScope = StoredScope.WORKSPACE) -> None:
        set_model(scope, kind, model, path=str(self.place.workspace), **self.kept)

    def key(
        self,
        provider: str,
        key: object,
        *,
        kind: str = "string",
        scope: StoredScope = StoredScope.WORKSPACE,
    ):
        set_provider_key(scope, provider, kind=kind, api_key=key, **self.kept)

    def content(self, scope: StoredScope = StoredScope.WORKSPACE) -> dict:
        return json.loads(Path(stored_file(scope, **self.kept)).read_text())


@pytest.fixture
def store(place) -> Store:
    return Store(place)


def test_each_scope_has_its_own_file(store, place):
    store.set("options.debug", True, StoredScope.USER)
    store.set("options.debug", False)
    assert json.loads(place.stored_for_user.read_text()) == {"options": {"debug": True}}
    assert json.loads(place.stored_for_workspace.read_text()) == {"options": {"debug": False}}


def test_a_stored_value_takes_effect(store, place):
    store.set("options.tui.compact_mode", True)
    assert place.load().public["options"]["tui"]["compact_mode"] is True


def test_the_file_is_its_owners_alone(store, place):
    old = os.umask(0)
    try:
        store.key("openai", "sk-1")
    finally:
        os.umask(old)
    assert stat.S_IMODE(place.stored_for_workspace.stat().st_mode) == 0o600


def test_the_data_directory_is_kept_out_of_version_control(store, place):
    store.key("openai", "sk-1")
    assert (place.data_dir / ".gitignore").read_text() == "*\n"
    (place.data_dir / ".gitignore").write_text("mine")
    store.key("openai", "sk-2")
    assert (place.data_dir / ".gitignore").read_text() == "mine"


def test_what_it_does_not_know_is_kept(store, place):
    place.write(place.stored_for_workspace, {"new_thing": [1, {"a": None}], "options": {"x": 1}})
    store.set("options.debug", True)
    assert store.content() == {"new_thing": [1, {"a": None}], "options": {"x": 1, "debug": True}}


def test_a_broken_file_is_refused_with_its_line_and_left(store, place):
    place.write(place.stored_for_workspace, '{\n"a": }')
    with pytest.raises(BrokenStoredFile, match=r"crush\.json:2:6"):
        store.set("options.debug", True)
    assert place.stored_for_workspace.read_text() == '{\n"a": }'


@pytest.mark.parametrize(
    "key", ["", ".", "a.", ".a", "a..b", "a\n.b", "\0", "x" * 2_000, ".".join("a" * 20), "a\\"]
)
def test_a_bad_key_is_refused(store, place, key: str):
    with pytest.raises(InvalidKey):
        store.set(key, 1)
    assert not place.stored_for_workspace.exists()


def test_a_dot_within_a_name_is_escaped():
    assert parse_key(r"providers.my\.own.api_key") == ("providers", "my.own", "api_key")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("options.debug", "yes"),
        ("options", []),
        ("providers.x.models", {}),
        ("models.large.temperature", 9),
        ("x", float("nan")),
        ("x", "\ud800"),
        ("x", {1, 2}),
        ("x", "a" * (1 << 20)),
    ],
)
def test_a_value_that_would_break_the_file_is_refused(store, place, key: str, value: object):
    with pytest.raises(InvalidValue):
        store.set(key, value)
    assert not place.stored_for_workspace.exists()


def test_a_value_nested_too_deep_is_refused(store):
    value: list = []
    for _ in range(5_000):
        value = [value]
    for key in ("x", "options.x", "providers.a.extra_body"):
        with pytest.raises(InvalidValue):
            store.set(key, value)


def test_a_refusal_names_the_key_and_not_the_value(store):
    with pytest.raises(InvalidValue, match=r"providers\.x\.api_key: must be text") as refusal:
        store.set("providers.x.api_key", ["sk-secret"])
    assert "sk-secret" not in str(refusal.value)


def test_text_in_the_middle_of_a_key_is_not_replaced(store):
    store.set("note", "text")
    with pytest.raises(InvalidKey, match="note is not an object"):
        store.set("note.below", 1)


def test_null_hides_what_lies_below(store, place):
    place.write(place.project, {"mcp": {"a": {"command": "x"}}})
    store.set("mcp.a", None)
    assert "a" not in place.load().public.get("mcp", {})


def test_removing_takes_empty_objects_with_it(store):
    store.set("providers.x.api_key", "k")
    store.set("options.debug", True)
    store.remove("providers.x.api_key")
    assert store.content() == {"options": {"debug": True}}


def test_removing_what_is_not_there_does_nothing(store, place):
    store.remove("options.debug")
    assert not place.stored_for_workspace.exists()
    store.set("options.debug", True)
    store.remove("options.debug.deeper")
    store.remove("providers.x")
    assert store.content() == {"options": {"debug": True}}


def test_a_model_is_chosen_as_a_whole(store, place):
    store.model("large", {"provider": "a", "model": "b", "think": True})
    store.model("large", {"provider": "a", "model": "c", "max_tokens": None})
    assert store.content()["models"]["large"] == {"provider": "a", "model": "c"}


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("medium", {"provider": "a", "model": "b"}),
        ("large", {"model": "b"}),
        ("large", {"provider": "a"}),
        ("large", {"provider": "", "model": "b"}),
        ("large", {"provider": 1, "model": "b"}),
        ("large", {"provider": "a", "model": "b", "max_tokens": "x"}),
    ],
)
def test_a_bad_choice_is_refused(store, kind: str, model: dict):
    with pytest.raises(StoredConfigError):
        store.model(kind, model)


def test_a_choice_for_the_user_stays_with_the_user_when_nothing_hides_it(store, place):
    store.model("large", {"provider": "offline", "model": "offline-small"}, StoredScope.USER)
    assert place.load().settings.large.model == "offline-small"
    assert not place.stored_for_workspace.exists()


def test_a_choice_for_the_user_takes_effect_where_a_project_says_otherwise(store, place):
    place.write(
        place.project, {"models": {"large": {"provider": "offline", "model": "offline-large"}}}
    )
    store.model("large", {"provider": "offline", "model": "offline-small"}, StoredScope.USER)
    assert place.load().settings.large.model == "offline-small"


@pytest.mark.parametrize("key", ["sk-plain", "with$dollar", "$$", "$VAR-not", "${"])
def test_a_typed_key_is_used_exactly_as_it_was_typed(store, place, key: str):
    store.key("openai", f" {key} ")
    loaded = place.load()
    assert loaded.settings.providers["openai"].api_key == key
    assert key not in json.dumps(loaded.public)


def test_a_variable_may_be_given_as_a_key(store, place):
    store.key("openai", "$MY_KEY")
    assert place.load({"MY_KEY": "sk"}).settings.providers["openai"].api_key == "sk"


def test_a_token_is_stored_and_a_later_key_replaces_it(store, place):
    token = {"access_token": "tok", "refresh_token": "re", "expires_in": 1, "expires_at": 2}
    store.key("openai", token, kind="oauth")
    assert place.load().settings.providers["openai"].api_key == "tok"
    assert place.load().public["providers"]["openai"]["oauth"]["expires_at"] == 2
    store.key("openai", "sk")
    assert store.content()["providers"]["openai"] == {"api_key": "sk"}


@pytest.mark.parametrize(
    ("provider", "key", "kind"),
    [
        ("", "k", "string"),
        ("a\n", "k", "string"),
        ("a", "", "string"),
        ("a", None, "string"),
        ("a", {"x": 1}, "string"),
        ("a", "k\nk", "string"),
        ("a", "k" * 100_000, "string"),
        ("a", "k", "oauth"),
        ("a", {}, "oauth"),
        ("a", "k", "other"),
    ],
)
def test_a_bad_key_of_a_provider_is_refused(store, place, provider: str, key: object, kind: str):
    with pytest.raises(StoredConfigError):
        store.key(provider, key, kind=kind)
    assert not place.stored_for_workspace.exists()


@pytest.mark.parametrize("value", [2, -1, True, "0", None, 0.0])
def test_a_scope_is_0_or_1(value: object):
    with pytest.raises(InvalidScope):
        StoredScope.of(value)


def test_writers_at_the_same_time_lose_nothing(store):
    def write(worker: int) -> None:
        for index in range(10):
            store.set(f"options.w{worker}_{index}", index)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.content()["options"]) == 60


def test_nothing_temporary_is_left(store, place):
    store.set("options.debug", True)
    with pytest.raises(InvalidValue):
        store.set("x", float("inf"))
    assert sorted(file.name for file in place.data_dir.iterdir()) == [
        ".gitignore",
        "crush.json",
        "crush.json.lock",
    ]


def test_a_link_is_replaced_and_what_it_points_to_left(store, place):
    target = place.write(place.home / "other.json", {"a": 1})
    place.data_dir.mkdir()
    place.stored_for_workspace.symlink_to(target)
    store.set("options.debug", True)
    assert json.loads(target.read_text()) == {"a": 1}


def test_a_fifo_in_place_of_the_lock_or_the_file_does_not_hang(store, place):
    place.data_dir.mkdir()
    os.mkfifo(place.data_dir / "crush.json.lock")
    with pytest.raises(NotWritable):
        store.set("options.debug", True)
    (place.data_dir / "crush.json.lock").unlink()
    os.mkfifo(place.stored_for_workspace)
    with pytest.raises(BrokenStoredFile):
        store.set("options.debug", True)


@pytest.mark.parametrize(
    "data_dir", ["/proc/nonexistent/x", "/dev/null/x", "/a\0b", "", "relative"]
)
def test_a_place_that_cannot_be_written_is_told(place, data_dir: str):
    with pytest.raises(NotWritable):
        set_value(StoredScope.WORKSPACE, "options.debug", True, data_dir=data_dir)


def test_a_lock_that_is_a_link_is_refused(store, place):
    place.data_dir.mkdir()
    (place.data_dir / "crush.json.lock").symlink_to(place.home / "made")
    with pytest.raises(NotWritable):
        store.set("options.debug", True)
    assert not (place.home / "made").exists()
