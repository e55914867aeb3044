"""Rights and roles, without a server."""

from itertools import pairwise

import pytest

from workspaces.access import (
    ALL_RIGHTS,
    ANONYMOUS,
    ANONYMOUS_CALLER,
    OWNER,
    RIGHTS_OF,
    RIGHTS_OF_TOOLS,
    Caller,
    Identity,
    IdentityKind,
    MemberRole,
    Right,
    caller_of,
)
from workspaces.log.errors import Forbidden, ForbiddenToTools, Unauthenticated


def user(**more: object) -> Identity:
    return Identity(IdentityKind.USER, name="ann", user_id=1, **more)  # type: ignore[arg-type]


async def yes() -> bool:
    return True


def test_nobody_may_only_use_what_is_public() -> None:
    assert {right for right in Right if ANONYMOUS.may(right, "w")} == {Right.PUBLIC}


def test_the_owner_may_do_everything_everywhere() -> None:
    assert {right for right in Right if OWNER.may(right)} == ALL_RIGHTS
    assert OWNER.may(Right.SKIP, "any")


def test_each_role_includes_the_one_before_it() -> None:
    rights = [RIGHTS_OF[role] for role in MemberRole]
    assert all(lower < higher for lower, higher in pairwise(rights))


@pytest.mark.parametrize("role", MemberRole)
def test_a_role_holds_in_its_workspace_alone(role: MemberRole) -> None:
    identity = user(roles={"w": role})
    assert {right for right in Right if identity.may(right, "w")} == RIGHTS_OF[role]
    everywhere = {Right.PUBLIC, Right.SIGNED_IN, Right.ACCOUNT}
    assert {right for right in Right if identity.may(right, "other")} == everywhere
    assert {right for right in Right if identity.may(right)} == everywhere
    assert identity.sees("w")
    assert not identity.sees("other")


def test_only_an_approver_answers_and_only_an_admin_configures() -> None:
    assert Right.ANSWER not in RIGHTS_OF[MemberRole.PROMPTER]
    assert Right.ANSWER in RIGHTS_OF[MemberRole.APPROVER]
    for right in (Right.CONFIGURE, Right.SHELL, Right.SKIP, Right.TRUST, Right.ADMINISTER):
        assert right not in RIGHTS_OF[MemberRole.APPROVER]


def test_a_tokens_scopes_and_workspaces_narrow_its_user() -> None:
    token = Identity(
        IdentityKind.TOKEN,
        is_staff=True,
        scopes=frozenset({Right.READ}),
        workspaces=frozenset({"w"}),
    )
    assert token.may(Right.READ, "w")
    assert not token.may(Right.PROMPT, "w")
    assert not token.may(Right.READ, "other")
    assert not token.may(Right.READ)
    assert token.may(Right.SIGNED_IN)


async def test_nobody_is_refused_with_401_and_others_with_403() -> None:
    with pytest.raises(Unauthenticated) as refused:
        await ANONYMOUS_CALLER.require(Right.READ, "w")
    assert (refused.value.status, refused.value.code) == (401, "unauthenticated")
    assert dict(refused.value.headers)[b"www-authenticate"].startswith(b"Bearer")
    with pytest.raises(Forbidden) as forbidden:
        await Caller(user()).require(Right.READ, "w")
    assert forbidden.value.status == 403
    await ANONYMOUS_CALLER.require(Right.PUBLIC)


@pytest.mark.parametrize("right", Right)
async def test_a_tool_may_read_and_prompt_whoever_owns_it(right: Right) -> None:
    tool = Caller(OWNER, is_tool=yes)
    if right in RIGHTS_OF_TOOLS:
        await tool.require(right, "w")
        assert await tool.may(right, "w")
    else:
        with pytest.raises(ForbiddenToTools):
            await tool.require(right, "w")
        assert not await tool.may(right, "w")


def test_rights_of_tools_are_those_of_reading_and_prompting() -> None:
    assert {
        Right.PUBLIC,
        Right.SIGNED_IN,
        Right.READ,
        Right.OPEN,
        Right.PROMPT,
    } == RIGHTS_OF_TOOLS


async def test_processes_are_looked_at_only_where_it_matters() -> None:
    async def fail() -> bool:
        raise AssertionError("looked at processes")

    caller = Caller(OWNER, is_tool=fail)
    await caller.require(Right.READ, "w")
    await caller.require(Right.PROMPT, "w")


def test_a_scope_without_a_caller_is_nobodys() -> None:
    assert caller_of({}).identity is ANONYMOUS
