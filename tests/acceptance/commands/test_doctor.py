"""`manage.py doctor`, with a server and without."""

import base64
import json
import re
from pathlib import Path

import pytest

from tests.acceptance.commands.prompts import Env
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server

DOCTORS_WORDS = "Answer with the one word"  # other requests are other tests'


def test_doctor_passes_on_a_healthy_server(shared_server: Server, project: MakeProject) -> None:
    done = command(shared_server.env, "doctor", "--path", str(project()))
    assert done.code == 0, done.out
    assert f"{shared_server.url} (pid " in done.out
    assert "fake-large of fake" in done.out
    assert "FAIL" not in done.out


def test_doctor_names_each_problem_and_its_place(alone: Env, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "crush.json").write_text('{\n  "providers": nonsense\n}')
    data = Path(alone["CRUSH_DATA_DIR"])
    data.mkdir(parents=True)
    (data / "secret.key").write_text("x")
    (data / "secret.key").chmod(0o644)
    done = command(alone, "doctor", "--path", str(folder))
    assert done.code == 1
    assert f"{folder}/crush.json:2:" in done.out
    assert "chmod 600" in done.out


def test_an_unknown_key_is_a_warning_that_names_the_likely_key(alone: Env, tmp_path: Path) -> None:
    (tmp_path / "crush.json").write_text('{"permission": {}, "provider": {"a": {}}}')
    looked = command(alone, "doctor", "--path", str(tmp_path))
    assert looked.code == 0, looked.out
    assert "permission: is not known and has no effect; did you mean permissions?" in looked.out
    assert "provider: is not known and has no effect; did you mean providers?" in looked.out
    done = command(alone, "prompt", "hello", "--path", str(tmp_path), "--wait")
    assert done.code == 0
    assert "did you mean permissions?" in done.err  # the log's warning


@pytest.mark.server_env(ONLY_THE_SERVERS_KEY="sk-fake")
def test_doctor_checks_the_running_server_and_its_model(
    embedded_server: Server, project: MakeProject, model: ScriptedModel
) -> None:
    config = configuration(model.base_url)
    config["providers"]["fake"]["api_key"] = "$ONLY_THE_SERVERS_KEY"
    path = project("doctored", **config)
    env = {k: v for k, v in embedded_server.env.items() if k != "ONLY_THE_SERVERS_KEY"}
    before = len(model.served(DOCTORS_WORDS))
    offline = command(env, "doctor", "--offline", "--path", str(path))
    assert offline.code == 0, offline.out
    assert "fake-large of fake" in offline.out
    assert "fake (with a key)" in offline.out
    assert "sk-fake" not in offline.out
    assert len(model.served(DOCTORS_WORDS)) == before
    online = command(env, "doctor", "--path", str(path))
    assert online.code == 0, online.out
    assert "the large model answered in" in online.out
    assert len(model.served(DOCTORS_WORDS)) == before + 1

    config["providers"]["fake"]["base_url"] = f"http://127.0.0.1:{free_port()}/v1"
    (path / "crush.json").write_text(json.dumps(config))
    dead = command(env, "doctor", "--path", str(path))
    assert dead.code == 1
    assert "cannot be reached" in dead.out

    (path / "crush.json").write_text('{"providers": nonsense}')
    broken = command(env, "doctor", "--path", str(path))
    assert broken.code == 1
    assert "crush.json:1:15: it is not JSON" in broken.out


def test_doctor_checks_the_model_without_a_server_and_prints_only_its_findings(
    alone: Env, tmp_path: Path, model: ScriptedModel
) -> None:
    (tmp_path / "crush.json").write_text(json.dumps(configuration(model.base_url)))
    done = command(alone, "doctor", "--path", str(tmp_path))
    assert done.code == 0, done.out
    assert "the large model answered in" in done.out
    assert done.err == ""


def test_doctor_refuses_several_processes_on_sqlite(alone: Env) -> None:
    redis = {"REDIS_URL": "redis://:very-secret@127.0.0.1:1/0"}
    done = command({**alone, **redis}, "doctor")
    assert done.code == 1
    assert "SQLite" in done.out
    assert "Redis" in done.out
    assert "very-secret" not in done.out + done.err


def verdicts(out: str) -> dict[str, str]:
    """The verdict of each check by its name; of several with one name, the worst."""
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=2) for line in out.splitlines()]
    found = {row[1]: row[0] for row in rows if len(row) == 3 and row[0] != "FAIL"}
    return found | {row[1]: row[0] for row in rows if len(row) == 3 and row[0] == "FAIL"}


SHARED = (
    *("PostgreSQL", "clock", "timeouts", "names", "connections", "secret.key", "worker processes"),
    *("web processes", "stuck runs", "migrations", "Redis", "shape", "server"),
)


def test_doctor_checks_what_several_processes_share(scaled_server: Server, tmp_path: Path) -> None:
    done = command(scaled_server.env, "doctor", "--offline", "--path", str(tmp_path))
    assert done.code == 0, done.out
    found = verdicts(done.out)
    assert {name: found.get(name) for name in SHARED} == dict.fromkeys(SHARED, "ok")
    assert "1 connected" in done.out
    assert "a round trip takes" in done.out


def test_doctor_names_what_is_wrong_with_several_processes(
    scaled_server: Server, tmp_path: Path
) -> None:
    (worker,) = scaled_server.processes("worker")
    worker.stop()
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "secret.key").write_bytes(base64.urlsafe_b64encode(bytes(32)))
    (other / "secret.key").chmod(0o600)
    options = "application_name=proxied&options=-c%20lock_timeout%3D0&password=very-secret"
    env = {
        **scaled_server.env,
        "CRUSH_DATA_DIR": str(other),
        "DATABASE_URL": f"{scaled_server.env['DATABASE_URL']}?{options}",
        "CRUSH_WORK_ROOTS": str(tmp_path / "unmounted"),
        "CRUSH_PUBLIC_URL": "http://crush.example.com",
    }
    done = command(env, "doctor", "--offline", "--path", str(tmp_path))
    assert done.code == 1
    found = verdicts(done.out)
    assert (found["secret.key"], found["root"]) == ("FAIL", "FAIL")
    wrong = ("timeouts", "names", "worker processes", "public address")
    assert {name: found.get(name) for name in wrong} == dict.fromkeys(wrong, "warn")
    for cure in (
        "secret-key --accept",
        "correct CRUSH_WORK_ROOTS",
        "lock_timeout is off",
        "remove application_name",
        "start `manage.py runworker`",
        "use https",
    ):
        assert cure in done.out
    assert "very-secret" not in done.out + done.err


def test_doctor_recognizes_a_killed_server(
    embedded_server: Server,
) -> None:
    embedded_server.kill9()
    done = command(embedded_server.env, "doctor")
    assert done.code == 0, done.out
    assert "left its file behind" in done.out
