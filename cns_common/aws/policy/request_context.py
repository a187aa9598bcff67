"""The condition keys of every call. An operation adds its own, such as `sns:Protocol`, before it asks a policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType

from cns_common.aws.call import Call, Caller


def call_facts(call: Call, now_ms: int) -> dict[str, str | list[str]]:
    """The global condition keys of a call, and those in `call.facts`, which calls by this service itself have."""
    by_service = call.caller.service != ""
    facts: dict[str, str | list[str]] = {
        **_time_facts(now_ms // 1000),
        "aws:RequestedRegion": call.region,
        # a call by this service itself crosses no network
        "aws:SecureTransport": "true" if call.secure or by_service else "false",
    }
    if call.source_ip and not by_service:
        facts["aws:SourceIp"] = call.source_ip
    if call.client_subject and not by_service:
        facts["cns:ClientCertificateSubject"] = call.client_subject
    if call.user_agent:
        facts["aws:UserAgent"] = call.user_agent
    facts.update(_caller_facts(call.caller))
    facts.update(call.facts)
    return facts


@lru_cache(maxsize=1)
def _time_facts(now_s: int) -> Mapping[str, str]:
    """Cached: many calls share a second, and formatting the date takes half of the time of `call_facts`."""
    current_time = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return MappingProxyType({"aws:CurrentTime": current_time, "aws:EpochTime": str(now_s)})


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
        **({"aws:username": caller.user_name} if caller.user_name else {}),
    }
