"""What the settings of single sign-on need."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from crushsite import env


def test_without_a_url_there_is_no_provider() -> None:
    assert env.openid_provider("", name="x", client_id="", secret_file="") == {}


def test_a_provider_has_its_secret_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    found = env.openid_provider("https://x", name="X", client_id="c", secret_file=str(file))
    (app,) = found["openid_connect"]["APPS"]
    assert (app["client_id"], app["secret"]) == ("c", "s3cret")


@pytest.mark.parametrize(("client_id", "secret_file"), [("", "/f"), ("c", ""), ("c", "/no/file")])
def test_an_incomplete_provider_is_an_error(client_id: str, secret_file: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="CRUSH_OIDC"):
        env.openid_provider("https://x", name="X", client_id=client_id, secret_file=secret_file)


def test_a_missing_extra_names_its_installation() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"crush-server\[sso\]"):
        env.require_module("no_such_module", setting="CRUSH_SSO", extra="sso")
