"""Secrets are sealed with a key that only its owner can read, made once by whoever comes first."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workspaces.log.secrets import SecretBox, SecretsUnavailable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "data" / "of" / "ours" / "secret.key"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_opens_what_it_sealed(key_file):
    box = SecretBox(key_file)
    token = box.seal("sk-1234 é\n\0")
    assert "sk-1234" not in token
    assert SecretBox(key_file).open(token) == "sk-1234 é\n\0"


def test_it_seals_the_same_text_differently_each_time(key_file):
    box = SecretBox(key_file)
    assert box.seal("a") != box.seal("a")


def test_it_seals_an_environment(key_file):
    env = {"A": "1", "B": "", "C": "x=y\nz", "D": "\udcff"}
    assert SecretBox(key_file).open_env(SecretBox(key_file).seal_env(env)) == env


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(env=st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4))
def test_any_environment_comes_back_as_it_was(key_file, env):
    box = SecretBox(key_file)
    assert box.open_env(box.seal_env(env)) == env


def test_making_a_box_touches_nothing(key_file):
    SecretBox(key_file)
    assert not key_file.parent.exists()


def test_the_key_and_its_folders_are_for_their_owner_alone(key_file):
    former = os.umask(0)
    try:
        SecretBox(key_file).seal("a")
    finally:
        os.umask(former)
    assert mode(key_file) == 0o600
    assert [mode(folder) for folder in key_file.parents[:3]] == [0o700] * 3
    assert list(key_file.parent.iterdir()) == [key_file]


def test_a_folder_that_was_there_keeps_its_mode(tmp_path):
    (tmp_path / "d").mkdir(mode=0o755)
    (tmp_path / "d").chmod(0o755)
    SecretBox(tmp_path / "d" / "secret.key").seal("a")
    assert mode(tmp_path / "d") == 0o755


@pytest.mark.parametrize("loose", [0o640, 0o604, 0o620, 0o602, 0o601, 0o666])
def test_it_refuses_a_key_that_others_can_reach(key_file, loose):
    token = SecretBox(key_file).seal("a")
    key_file.chmod(loose)
    with pytest.raises(SecretsUnavailable, match=f"mode {loose:04o}.*chmod 600"):
        SecretBox(key_file).open(token)
    assert mode(key_file) == loose


def test_it_takes_a_key_that_even_its_owner_cannot_change(key_file):
    token = SecretBox(key_file).seal("a")
    key_file.chmod(0o400)
    assert SecretBox(key_file).open(token) == "a"


@pytest.mark.parametrize("content", [b"", b"not a key", b"x" * 5_000, b"\xff\x00"])
def test_it_refuses_a_file_that_holds_no_key_and_keeps_it(key_file, content):
    key_file.parent.mkdir(parents=True)
    key_file.write_bytes(content)
    key_file.chmod(0o600)
    with pytest.raises(SecretsUnavailable, match="does not hold a key"):
        SecretBox(key_file).seal("a")
    assert key_file.read_bytes() == content


def test_it_refuses_a_folder_or_a_pipe_in_the_keys_place(tmp_path):
    with pytest.raises(SecretsUnavailable, match="is not a file"):
        SecretBox(tmp_path).seal("a")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SecretsUnavailable, match="is not a file"):
        SecretBox(tmp_path / "pipe").seal("a")


def test_it_says_when_the_key_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SecretsUnavailable, match="cannot be"):
        SecretBox(tmp_path / "file" / "secret.key").seal("a")


def test_it_says_when_the_folder_is_a_link_to_nowhere(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SecretsUnavailable, match="cannot be made"):
        SecretBox(tmp_path / "link" / "secret.key").seal("a")


def test_it_says_when_the_key_does_not_fit_and_tells_no_secret(key_file, tmp_path):
    token = SecretBox(key_file).seal("hidden words")
    other = SecretBox(tmp_path / "other.key")
    with pytest.raises(SecretsUnavailable, match="does not fit the key") as caught:
        other.open(token)
    said = "".join(traceback.format_exception(caught.value))
    assert token not in said
    assert caught.value.code == "secrets_unavailable"


@pytest.mark.parametrize("token", ["", "x", "é", "\ud800", "gAAAAA==", "a" * 10_000])
def test_it_says_when_a_token_is_damaged(key_file, token):
    with pytest.raises(SecretsUnavailable, match="damaged"):
        SecretBox(key_file).open(token)


@pytest.mark.parametrize("text", ["", "[]", "3", '{"a": 1}', "hidden {"])
def test_it_refuses_a_text_that_is_no_environment(key_file, text):
    box = SecretBox(key_file)
    with pytest.raises(SecretsUnavailable, match="not an environment") as caught:
        box.open_env(box.seal(text))
    assert "hidden" not in str(caught.value)


def test_its_repr_shows_nothing(key_file):
    box = SecretBox(key_file)
    box.seal("hidden")
    key = key_file.read_text()
    assert key not in repr(box)
    assert "hidden" not in repr(box)


def test_it_loads_no_cryptography_before_it_is_used():
    code = "import sys, workspaces.log.secrets; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_twenty_processes_that_start_at_once_agree_on_one_key(key_file):
    code = (
        "import sys; from pathlib import Path; from workspaces.log.secrets import SecretBox\n"
        "import cryptography.fernet\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(SecretBox(Path(sys.argv[1])).seal('a'))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(key_file)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(20)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    tokens = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * 20
    box = SecretBox(key_file)
    assert [box.open(token) for token in tokens] == ["a"] * 20
    assert list(key_file.parent.iterdir()) == [key_file]


def test_a_key_that_appears_meanwhile_is_used_and_not_replaced(key_file):
    key_file.parent.mkdir(parents=True)
    first = Fernet.generate_key()
    box = SecretBox(key_file)
    key_file.write_bytes(first + b"\n")
    key_file.chmod(0o600)
    token = box.seal("a")
    assert Fernet(first).decrypt(token.encode()) == b"a"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [1, 65_534])
def test_it_refuses_a_key_that_belongs_to_another_user(key_file, owner):
    SecretBox(key_file).seal("x")
    os.chown(key_file, owner, -1)
    with pytest.raises(SecretsUnavailable, match="belongs to another user"):
        SecretBox(key_file).seal("x")
