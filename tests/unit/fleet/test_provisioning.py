"""The provisioning document, both ways."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.fleet.provisioning.codec import read_spec, write_spec
from agents.fleet.provisioning.spec import (
    MOST_BYTES,
    BadSpec,
    Bus,
    Capabilities,
    ChildIdentity,
    Credential,
    Limits,
    Placement,
    ProvisionSpec,
    Secrets,
    SpecExecutor,
    SpecModelChoice,
)

FULL = (
    b'{"version":1,"identity":{"child_id":"c1","parent_id":"p1","project_key":"proj",'
    b'"role":"researcher","depth":1},"executor":{"kind":"cli_adapter","command":"claude",'
    b'"args":["-p"]},"fabric_dir":"/run/user/1000/bamboo/agents","storage_dir":"/srv/s",'
    b'"workspace":"/srv/w","model":{"provider":"anthropic","model":"m"},'
    b'"disabled_tools":["Bash"],"limits":{"run_timeout_secs":600,"idle_timeout_secs":300,'
    b'"max_rounds":40},"secrets":{"provider_credentials":[{"provider":"inst-1",'
    b'"api_key":"sk-test","base_url":"https://x","provider_type":"anthropic"}]},'
    b'"reusable":true,"placement":{"kind":"schedulable","pool":"gpu"},'
    b'"capabilities":{"mcp":{"servers":[]},"skills_dir":"/sk","mcp_proxy":{'
    b'"orchestrator":"orch","endpoint":"ws://b","token":"t"},"enforce_permissions":true,'
    b'"nested_spawn":true,"max_spawn_depth":4,"bypass":false,"no_human_approver":true,'
    b'"guardian_read_only":false}}'
)
DEFAULT = (
    b'{"version":1,"identity":{"child_id":"c-one","parent_id":"p1","role":"researcher",'
    b'"depth":1},"executor":{"kind":"echo"},"fabric_dir":"/srv/f",'
    b'"limits":{"idle_timeout_secs":2},"secrets":{"provider_credentials":[]},'
    b'"reusable":false,"placement":{"kind":"local"},"capabilities":{'
    b'"enforce_permissions":false,"nested_spawn":false,"bypass":false,'
    b'"no_human_approver":false,"guardian_read_only":false}}'
)
LEAST = {
    "version": 7,
    "identity": {"child_id": "c"},
    "executor": {"kind": "script"},
    "fabric_dir": "/f",
}


@pytest.mark.parametrize("captured", [FULL, DEFAULT], ids=["full", "default"])
def test_it_writes_what_the_other_side_writes_byte_for_byte(captured):
    assert write_spec(read_spec(captured)) == captured


def test_it_writes_a_default_document_from_values():
    spec = ProvisionSpec(
        identity=ChildIdentity("c-one", parent_id="p1", role="researcher", depth=1),
        executor=SpecExecutor("echo"),
        fabric_dir="/srv/f",
        limits=Limits(idle_timeout_secs=2),
    )
    assert write_spec(spec) == DEFAULT


def test_only_four_fields_are_needed():
    spec = read_spec(orjson.dumps(LEAST))
    assert spec.version == 7
    assert spec.identity == ChildIdentity("c")
    assert (spec.model, spec.reusable, spec.placement.kind) == (None, False, "local")


def test_blanks_around_and_unknown_fields_are_fine():
    document = {**LEAST, "new": {"x": 1}, "limits": {"other": 1}}
    assert read_spec(b" \n\t" + orjson.dumps(document) + b"\r\n ").limits == Limits()


@pytest.mark.parametrize("missing", ["version", "identity", "executor", "fabric_dir"])
def test_a_needed_field_is_missed_by_name(missing):
    document = {key: value for key, value in LEAST.items() if key != missing}
    with pytest.raises(BadSpec, match=rf"{missing} is missing"):
        read_spec(orjson.dumps(document))


@pytest.mark.parametrize("field", ["limits", "secrets", "placement", "capabilities"])
def test_null_is_no_object(field):
    with pytest.raises(BadSpec, match=f"{field} must be an object"):
        read_spec(orjson.dumps({**LEAST, field: None}))


@pytest.mark.parametrize(
    "change",
    [
        {"version": -1},
        {"version": 2**32},
        {"version": "1"},
        {"version": True},
        {"version": 1.0},
        {"identity": {"child_id": "../etc/x"}},
        {"identity": {"child_id": ".hidden"}},
        {"identity": {"child_id": ""}},
        {"identity": {"child_id": "a\nb"}},
        {"identity": {"child_id": "x" * 300}},
        {"identity": {"child_id": "c", "depth": -1}},
        {"executor": {"kind": "cli_adapter"}},
        {"executor": {}},
        {"fabric_dir": ""},
        {"fabric_dir": "a\u0000b"},
        {"disabled_tools": [1]},
        {"limits": {"max_rounds": "many"}},
        {"secrets": {"provider_credentials": None}},
        {"secrets": {"provider_credentials": ["x"]}},
        {"reusable": 1},
        {"placement": {"kind": "moon"}},
        {"placement": {"kind": "remote"}},
        {"capabilities": {"bypass": "yes"}},
        {"capabilities": {"mcp_proxy": {"orchestrator": "o", "endpoint": "e"}}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_with_a_sentence(change):
    with pytest.raises(BadSpec, match=r"^[\w\[\].,' ]+\.$"):
        read_spec(orjson.dumps({**LEAST, **change}))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{", FULL + FULL, FULL + b"x", b"\xef\xbb\xbf" + FULL, b"\xff"],
    ids=repr,
)
def test_only_one_json_object_is_a_document(data):
    with pytest.raises(BadSpec):
        read_spec(data)


def test_too_large_a_document_is_refused_both_ways():
    with pytest.raises(BadSpec, match="larger"):
        read_spec(b" " * MOST_BYTES + FULL)
    spec = read_spec(FULL)
    big = ProvisionSpec(spec.identity, spec.executor, "x" * MOST_BYTES)
    with pytest.raises(BadSpec, match="larger"):
        write_spec(big)


def test_secrets_stay_out_of_repr_and_of_errors():
    document = {
        **LEAST,
        "secrets": {
            "provider_credentials": [
                {"provider": "p", "api_key": "s3cret", "base_url": "https://u:s3cret@x"}
            ],
            "worker_auth_token": "s3cret",
        },
        "bus": {"endpoint": "ws://b", "token": "s3cret"},
        "owner": {"process_id": 1, "session_id": "s3cret"},
        "capabilities": {
            "mcp": {"servers": [{"env": {"KEY": "s3cret"}}]},
            "mcp_proxy": {"orchestrator": "o", "endpoint": "e", "token": "s3cret"},
        },
    }
    assert "s3cret" not in repr(read_spec(orjson.dumps(document)))
    with pytest.raises(BadSpec) as told:
        read_spec(orjson.dumps(document)[:-1] + b',"reusable":"s3cret"}')
    assert "s3cret" not in str(told.value)
    assert told.value.__cause__ is None


def test_version_2_is_read_and_kept():
    document = {
        **LEAST,
        "version": 2,
        "executor": {"kind": "codex", "sandbox": "strict", "args": ["-q"]},
        "secrets": {
            "provider_credentials": [{"provider": "p", "credential_ref": "ref"}],
            "worker_auth_token": "tok",
        },
        "capabilities": {
            "read_only": True,
            "auto_approve_permissions": True,
            "permission_requested_mode": "ask",
            "native_tool_ceiling": ["Read"],
        },
        "bus": {"endpoint": "ws://b", "token": "t"},
        "owner": {"process_id": 4, "instance_id": "i", "worker_spawned_at": "x"},
    }
    spec = read_spec(orjson.dumps(document))
    assert spec.bus == Bus("ws://b", "t")
    assert spec.secrets.worker_auth_token == "tok"
    assert spec.capabilities.read_only
    again = orjson.loads(write_spec(spec))
    assert again["executor"] == {"kind": "codex", "args": ["-q"], "sandbox": "strict"}
    assert again["capabilities"]["native_tool_ceiling"] == ["Read"]
    assert again["owner"] == document["owner"]
    assert read_spec(write_spec(spec)) == spec


_TEXT = st.text(max_size=12)
_NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
_COUNTS = st.none() | st.integers(0, 2**32 - 1)
_SPECS = st.builds(
    ProvisionSpec,
    identity=st.builds(
        ChildIdentity,
        child_id=_NAMES,
        parent_id=st.none() | _TEXT,
        project_key=st.none() | _TEXT,
        role=_TEXT,
        depth=st.integers(0, 9),
    ),
    executor=st.builds(
        SpecExecutor,
        kind=st.sampled_from(["echo", "bamboo_runtime", "script", "cli_adapter"]),
        command=_TEXT,
        args=st.lists(_TEXT, max_size=3).map(tuple),
    ),
    fabric_dir=_NAMES,
    storage_dir=st.none() | _NAMES,
    model=st.none() | st.builds(SpecModelChoice, _TEXT, _TEXT),
    disabled_tools=st.lists(_TEXT, max_size=3).map(tuple),
    limits=st.builds(Limits, _COUNTS, _COUNTS, _COUNTS),
    secrets=st.builds(
        Secrets,
        st.lists(
            st.builds(Credential, _TEXT, _TEXT, st.none() | _TEXT, st.none() | _TEXT), max_size=2
        ).map(tuple),
    ),
    reusable=st.booleans(),
    placement=st.just(Placement())
    | st.builds(lambda e: Placement("remote", endpoint=e), _TEXT)
    | st.builds(lambda p: Placement("schedulable", pool=p), _TEXT),
    capabilities=st.builds(
        Capabilities,
        enforce_permissions=st.booleans(),
        nested_spawn=st.booleans(),
        max_spawn_depth=_COUNTS,
        bypass=st.booleans(),
        read_only=st.booleans(),
    ),
    version=st.integers(0, 2**32 - 1),
)


@given(_SPECS)
def test_what_is_written_is_read_again(spec):
    assert read_spec(write_spec(spec)) == spec
