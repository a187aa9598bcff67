"""The condition keys of every call."""

from __future__ import annotations

from typing import Any

from cns_common.aws.call import ANONYMOUS, Call, Caller
from cns_common.aws.policy.request_context import call_facts
from tests.unit.aws.policies import OTHER, OTHER_ROOT, SNS, TOPIC


def facts_of(caller: Caller, **details: Any) -> dict[str, str | list[str]]:
    call = Call(caller=caller, region="us-east-2", request_id="1", base_url="http://localhost", **details)
    return call_facts(call, 1_767_323_045_678)


ALWAYS = {
    "aws:CurrentTime": "2026-01-02T03:04:05Z",
    "aws:EpochTime": "1767323045",
    "aws:RequestedRegion": "us-east-2",
}


def test_facts_of_a_signed_call() -> None:
    assert facts_of(OTHER_ROOT, source_ip="10.1.2.3", headers={b"user-agent": b"Boto3/1"}, secure=True) == ALWAYS | {
        "aws:SecureTransport": "true",
        "aws:SourceIp": "10.1.2.3",
        "aws:UserAgent": "Boto3/1",
        "aws:PrincipalArn": OTHER_ROOT.arn,
        "aws:PrincipalAccount": OTHER,
        "aws:PrincipalType": "Account",
        "aws:userid": OTHER,
    }


def test_facts_of_an_anonymous_call() -> None:
    assert facts_of(ANONYMOUS, source_ip="10.1.2.3") == ALWAYS | {
        "aws:SecureTransport": "false",
        "aws:SourceIp": "10.1.2.3",
        "aws:PrincipalType": "Anonymous",
        "aws:userid": "anonymous",
    }


def test_facts_of_a_service_call() -> None:
    assert facts_of(SNS, source_ip="10.1.2.3", facts={"aws:SourceArn": TOPIC}) == ALWAYS | {
        "aws:SecureTransport": "true",
        "aws:PrincipalServiceName": "sns.amazonaws.com",
        "aws:PrincipalIsAWSService": "true",
        "aws:SourceArn": TOPIC,
    }
