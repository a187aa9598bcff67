"""Named users as principals: in policies, as condition keys, and under `--auth=off`."""

from __future__ import annotations

import re

import pytest

from cns_common.aws.auth.accounts import AccessKey, KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.call import Call, Caller, user_caller
from cns_common.aws.http_request import HttpRequest
from cns_common.aws.policy.evaluation import PolicyVerdict, decide
from cns_common.aws.policy.request_context import call_facts
from cns_common.aws.sts import get_caller_identity
from cns_common.clock import Clock
from tests.unit.aws.policies import OTHER, OTHER_ROOT, OWNER, ROOT, Element, policy, request, statement

ALICE = user_caller(OWNER, "alice", "AIDAALICE")
BOB = user_caller(OWNER, "bob", "AIDABOB")
CAROL = user_caller(OTHER, "carol", "AIDACAROL")
DAVE = user_caller(OTHER, "dave", "AIDADAVE")
CALLERS = {"root": ROOT, "alice": ALICE, "bob": BOB, "other": OTHER_ROOT, "carol": CAROL, "dave": DAVE}
OWN = {"root", "alice", "bob"}


def allowed(*statements: dict[str, Element]) -> set[str]:
    """The callers that may use a queue of OWNER with this policy."""
    asked = policy(*statements)
    return {
        name
        for name, caller in CALLERS.items()
        if decide(asked, OWNER, request(caller, facts=facts_of(caller))) is PolicyVerdict.ALLOWED
    }


def facts_of(caller: Caller) -> dict[str, str | list[str]]:
    return call_facts(Call(caller=caller, region="r", request_id="", base_url=""), 0)


@pytest.mark.spec("policy.identity", "policy.account", "policy.key-principal", "policy.key-username")
@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([statement(Principal={"AWS": CAROL.arn})], {*OWN, "carol"}),
        ([statement(Principal={"AWS": OTHER})], {*OWN, "other", "carol", "dave"}),
        ([statement(Principal={"AWS": OTHER_ROOT.arn})], {*OWN, "other", "carol", "dave"}),
        ([statement(Principal={"AWS": f"arn:aws:iam::{OTHER}:user/car"})], OWN),
        ([statement(Effect="Deny", Principal={"AWS": ALICE.arn})], {"root", "bob"}),
        ([statement(Effect="Deny", Principal={"AWS": ROOT.arn})], set()),
        ([statement(Effect="Deny", Principal=None, NotPrincipal={"AWS": [ALICE.arn, ROOT.arn]})], {"root", "alice"}),
        (
            [statement(Principal={"AWS": OTHER}), statement(Effect="Deny", Principal={"AWS": DAVE.arn})],
            {*OWN, "other", "carol"},
        ),
        ([statement(Condition={"StringEquals": {"aws:username": "carol"}})], {*OWN, "carol"}),
        (
            [statement(Condition={"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{OTHER}:user/*"}})],
            {*OWN, "carol", "dave"},
        ),
        ([statement(Condition={"StringEquals": {"aws:userid": "AIDADAVE"}})], {*OWN, "dave"}),
        ([statement(Condition={"Null": {"aws:username": "true"}})], {*OWN, "other"}),
    ],
)
def test_what_policies_say_of_users(statements: list[dict[str, Element]], expected: set[str]) -> None:
    assert allowed(*statements) == expected


def test_a_users_key_is_the_users() -> None:
    root, user = AccessKey(OWNER, "AKIA1", "s1", 0), AccessKey(OWNER, "AKIA2", "s2", 0, "alice", "AIDAALICE")
    ring = KeyRing([root, user])
    assert ring.find("AKIA2") == ("s2", user_caller(OWNER, "alice", "AIDAALICE", "AKIA2"))
    known = ring.find("AKIA1")
    assert known is not None
    assert known[1].root
    ring.replace([root])
    assert ring.find("AKIA2") is None


async def test_a_user_is_told_who_calls() -> None:
    call = Call(caller=ALICE, region="r", request_id="", base_url="")
    assert await get_caller_identity(call, {}) == {
        "Arn": f"arn:aws:iam::{OWNER}:user/alice",
        "UserId": "AIDAALICE",
        "Account": OWNER,
    }


# -- --auth=off -------------------------------------------------------------------------------------------------------


def believed(key_id: str) -> Caller:
    """The caller of a request whose signature is not checked."""
    claim = f"AWS4-HMAC-SHA256 Credential={key_id}/20260101/us-east-1/sns/aws4_request"
    headers = [(b"authorization", claim.encode("latin-1"))] if key_id else []
    asked = HttpRequest(
        method="POST",
        path="/",
        raw_path=b"/",
        query=b"",
        headers=headers,
        scheme="http",
        source_ip="",
        when_gone=lambda _: None,
        body=b"",
    )
    door = Authenticator(KeyRing([]), Clock(), enforced=False, region="us-east-1", account_id="000000000000")
    return door.identify(asked, b"", "sns", anonymous=False).caller


@pytest.mark.parametrize(
    ("key_id", "account", "name"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "000000000000", "AKIAIOSFODNN7EXAMPLE"),
        ("some.one+x=y@z-0_", "000000000000", "some.one+x=y@z-0_"),
        ("123456789012", "123456789012", "123456789012"),
        ("no*name", "000000000000", "test"),
        ("n" * 64, "000000000000", "n" * 64),
        ("n" * 65, "000000000000", "test"),
        ("", "000000000000", "test"),
    ],
)
def test_without_auth_the_access_key_names_the_user(key_id: str, account: str, name: str) -> None:
    caller = believed(key_id)
    assert (caller.account, caller.arn) == (account, f"arn:aws:iam::{account}:user/{name}")
    assert (caller.user_name, caller.key_id) == (name, key_id)
    assert re.fullmatch("AIDA[A-Z2-7]{17}", caller.user_id)
    assert believed(key_id).user_id == caller.user_id
    assert believed("another").user_id != caller.user_id
