"""Users, groups, members, trust and the audit are administered in the console."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import PHONE, OpenConsole
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def items(seat: Seat, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await seat.workspace.client.http.call("GET", path))["items"]
    return found


@pytest.mark.timeout(180)
async def test_users_get_groups_and_groups_get_roles(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    workspace = seat.workspace.id
    page = await open_console(embedded_server, "/settings/users", width=PHONE)
    await page.get_by_label("Name", exact=True).fill("ann")
    await page.get_by_role("button", name="Add the user").click()
    users = page.get_by_role("list", name="Users")
    await expect(users.get_by_role("listitem").filter(has_text="ann")).to_be_visible()

    await page.get_by_role("link", name="Groups").click()
    await page.get_by_label("Name of the group").fill("crew")
    await page.get_by_role("button", name="Add the group").click()
    groups = page.get_by_role("list", name="Groups", exact=True)
    await expect(groups).to_contain_text("Gives no role.")
    form = page.locator("form").filter(has=page.get_by_label("Role", exact=True))
    await form.get_by_label("Workspace").select_option(workspace)
    await form.get_by_label("Role", exact=True).select_option("approver")
    await form.get_by_role("button", name="Give the role").click()
    await expect(page.get_by_role("list", name="Roles of crew")).to_contain_text("Approver")
    (role,) = await items(seat, "/api/group-roles")
    assert (role["group"], role["workspace_id"], role["role"]) == ("crew", workspace, "approver")

    await page.get_by_role("link", name="Users", exact=True).click()
    row = users.get_by_role("listitem").filter(has_text="ann")
    await row.get_by_text("Groups and roles").click()
    await expect(row).to_contain_text("No role")
    await row.get_by_label("crew").check()
    await row.get_by_role("button", name="Save ann").click()
    roles = page.get_by_role("list", name="Roles of ann")
    await expect(roles).to_contain_text("Approver")
    (ann,) = [each for each in await items(seat, "/api/users") if each["name"] == "ann"]
    assert (ann["groups"], ann["is_staff"]) == (["crew"], False)

    await roles.get_by_role("link", name="shown").click()
    await expect(page).to_have_url(re.compile(f"/w/{workspace}/settings/members$"))
    await expect(page.get_by_role("list", name="By a group")).to_contain_text("crew")
    await page.get_by_label("User", exact=True).fill("ann")
    await page.get_by_role("button", name="Give the role").click()
    chosen = page.get_by_label("Role of ann")
    await expect(chosen).to_have_value("prompter")
    # The message may be that of an earlier change, so the request is waited for.
    async with page.expect_response(
        lambda answer: answer.url.endswith("/members") and answer.request.method == "POST"
    ):
        await chosen.select_option("admin")
    await expect(page.get_by_text("Saved.", exact=True).first).to_be_visible()
    await expect(chosen).to_have_value("admin")
    (member,) = await items(seat, f"/api/workspaces/{workspace}/members")
    assert (member["name"], member["role"]) == ("ann", "admin")

    await page.get_by_role("link", name="Change groups and their roles").click()
    await page.get_by_role("button", name="Take away crew: Approver, shown").click()
    await page.get_by_role("button", name="Take away for good? crew").click()
    await expect(groups).to_contain_text("Gives no role.")
    await page.get_by_role("button", name="Delete crew").click()
    await page.get_by_role("button", name="Delete for good? crew").click()
    await expect(page.get_by_text("There are no groups.")).to_be_visible()
    assert await items(seat, "/api/group-roles") == []


@pytest.mark.timeout(120)
async def test_the_audit_is_filtered_and_the_address_has_the_filters(
    embedded_server: Server,
    seat: Seat,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
) -> None:
    http = seat.workspace.client.http
    other = await take_seat(connect(embedded_server), project("other"))
    for name in ("ann", "ben"):
        await http.call("POST", "/api/users", {"name": name}, expect=201)
    for where, name, role in ((seat, "ann", "viewer"), (other, "ben", "admin")):
        path = f"/api/workspaces/{where.workspace.id}/members"
        await http.call("POST", path, {"name": name, "role": role}, expect=201)

    page = await open_console(embedded_server, "/settings/audit")
    entries = page.get_by_role("region", name="Entries of the audit")
    rows = entries.locator("tbody tr")
    filters = page.locator("form")
    await expect(entries).to_contain_text("sign in")
    await filters.get_by_label("Act").select_option("set role")
    await filters.get_by_role("button", name="Filter").click()
    await expect(rows).to_have_count(2)
    await filters.get_by_label("Workspace").select_option(other.workspace.id)
    await filters.get_by_role("button", name="Filter").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(["ben"])
    await expect(rows).to_contain_text(["admin"])

    await page.reload()
    await expect(rows).to_have_count(1)
    await expect(filters.get_by_label("Act")).to_have_value("set role")
    await filters.get_by_label("User").select_option(label="ann")
    await filters.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No entry matches.")).to_be_visible()
    await filters.get_by_label("User").select_option("")
    today = await page.evaluate("new Date().toLocaleDateString('sv')")
    await filters.get_by_label("Until").fill(today)
    await filters.get_by_role("button", name="Filter").click()
    await expect(rows).to_have_count(1)
    await filters.get_by_label("From").fill("2999-01-01")
    await filters.get_by_label("Until").fill("")
    await filters.get_by_role("button", name="Filter").click()
    await expect(page.get_by_text("No entry matches.")).to_be_visible()


@pytest.mark.timeout(120)
@pytest.mark.server_env(CRUSH_TRUST="ask")
async def test_folders_are_reviewed_and_trusted(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder in (elsewhere, seat.workspace.path):
        content = {"mcp": {"x": {"command": "touch reviewed"}}}
        found = folder / "crush.json"
        known = json.loads(found.read_text()) if found.exists() else {}
        found.write_text(json.dumps(known | content))

    page = await open_console(embedded_server, "/settings/trust")
    await page.get_by_label("Folder", exact=True).fill(str(elsewhere))
    await page.get_by_role("button", name="Review", exact=True).click()
    review = page.locator("c-trust-review")
    await expect(review).to_contain_text("No decision")
    await expect(review).to_contain_text("touch reviewed")
    await review.get_by_role("button", name="Trust", exact=True).click()
    decisions = page.get_by_role("list", name="Trust")
    await expect(decisions).to_contain_text(str(elsewhere))
    await expect(decisions).to_contain_text("Trusted")
    await expect(review).to_contain_text("may do what is listed")
    await page.get_by_role("button", name=f"Revoke {elsewhere}").first.click()
    await page.get_by_role("button", name=f"Revoke for good? {elsewhere}").click()
    await expect(decisions).to_have_count(0)
    await expect(review).to_contain_text("No decision")

    await page.goto(f"/w/{seat.workspace.id}/settings/trust")
    await expect(review).to_contain_text("touch reviewed")
    await review.get_by_role("button", name="Do not trust").click()
    await expect(review).to_contain_text("Denied")
    answer = await seat.workspace.client.http.call("GET", "/api/trust")
    assert [each["allowed"] for each in answer["answers"]] == [False]
