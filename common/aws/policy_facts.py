"""The condition keys of every call; an operation adds its own, such as `sns:Protocol`, before it asks a policy."""

from __future__ import annotations

from datetime import UTC, datetime

from common.aws.call import Call, Caller


def call_facts(call: Call, now_ms: int) -> dict[str, str | list[str]]:
    """The global keys of a call; a call by this service itself brings its own in `call.facts`."""
    now_s = now_ms // 1000
    by_service = call.caller.service != ""
    facts: dict[str, str | list[str]] = {
        "aws:CurrentTime": datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "aws:EpochTime": str(now_s),
        "aws:RequestedRegion": call.region,
        # A call from within crosses no wire that anybody could listen to.
        "aws:SecureTransport": "true" if call.secure or by_service else "false",
    }
    if call.source_ip and not by_service:
        facts["aws:SourceIp"] = call.source_ip
    if call.user_agent:
        facts["aws:UserAgent"] = call.user_agent
    facts.update(_caller_facts(call.caller))
    facts.update(call.facts)
    return facts


def _caller_facts(caller: Caller) -> dict[str, str]:
    if caller.service:
        return {"aws:PrincipalServiceName": caller.service, "aws:PrincipalIsAWSService": "true"}
    if caller.anonymous:
        return {"aws:PrincipalType": "Anonymous", "aws:userid": "anonymous"}
    return {
        "aws:PrincipalArn": caller.arn,
        "aws:PrincipalAccount": caller.account,
        "aws:PrincipalType": "Account" if caller.root else "User",
        "aws:userid": caller.user_id,
    }
