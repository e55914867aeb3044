"""Every native resource refuses each wrong identity. The cases are generated from the addresses."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern

from crushsite.rest_urls import urlpatterns
from tests.integration.api.client import Answer, Api
from tests.integration.api.conftest import Opened
from tests.integration.rights import Case, call_as_retired, cases_of, path_of, refuse_all, yes
from workspaces.access import ANONYMOUS, OWNER, RIGHTS_OF_TOOLS, Caller, Right
from workspaces.rest.view import METHODS, Resource


def methods_of(_: URLPattern, view: Any) -> Iterator[str]:
    """Returns none for the documentation, which is a page."""
    is_resource = issubclass(view, Resource)
    return (method for method in METHODS if is_resource and hasattr(view, method))


RESOURCES = cases_of(urlpatterns, "api/", methods_of)
# Those that need a client; a retired one gets 409 there.
OF_CLIENTS = {
    "post api/workspaces",
    "post api/workspaces/<str:workspace_id>/sessions/<str:session_id>/prompts",
}


def is_problem(answer: Answer) -> None:
    assert answer.content_type == "application/problem+json"


@pytest.mark.parametrize("case", RESOURCES, ids=" ".join)
async def test_a_resource_refuses_wrong_identities(
    rest: Api, workspace: Opened, case: Case
) -> None:
    if case[2] is Right.PUBLIC:
        rest.caller = Caller(ANONYMOUS)
        assert (await rest.call(case[0].upper(), path_of(case[1]))).status == 200
        return
    await refuse_all(rest, workspace.id, case, is_problem)


@pytest.mark.parametrize(
    "case", [case for case in RESOURCES if case[2] not in RIGHTS_OF_TOOLS], ids=" ".join
)
async def test_a_resource_for_people_refuses_tools(
    rest: Api, workspace: Opened, case: Case
) -> None:
    rest.caller = Caller(OWNER, is_tool=yes)
    path = path_of(case[1], workspace_id=workspace.id)
    answer = await rest.call(case[0].upper(), path, {})
    assert (answer.status, answer.json["code"]) == (403, "forbidden_to_tools")


@pytest.mark.parametrize("case", RESOURCES, ids=" ".join)
async def test_a_resource_does_nothing_for_a_retired_client(
    rest: Api, workspace: Opened, case: Case
) -> None:
    session_id = await workspace.session()
    status = await call_as_retired(rest, workspace.id, session_id, case)
    needs_client = f"{case[0]} {case[1]}" in OF_CLIENTS
    assert (status == 409) == needs_client, status
