"""Parsers of untrusted bytes take time linear in their length: executed lines of Python are counted, not seconds.

Twice the input takes at most GROWTH_MAX times the lines, those of the standard library's modules included. What a line
does in C is not seen: regular expressions are counted by test_linear_patterns, and what is built by its size here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from cns.arns import check_subscription_arn
from cns.endpoints.http import HttpSender
from cns.endpoints.http_auth import DigestInput, EndpointCredentials, authorization, challenges
from cns.endpoints.http_connection import HttpResponse
from cns.endpoints.http_url import target_of
from cns.subscriptions.confirmation_tokens import is_well_formed
from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.auth.canonical_request import (
    canonical_path,
    canonical_query,
    canonical_request,
    reencode,
    split_query,
)
from cns_common.aws.auth.signature import parse
from cns_common.aws.auth.signature_claim import claim_of_header, read_date
from cns_common.aws.front_door import FrontDoor
from cns_common.aws.policy.parser import template
from cns_common.aws.protocol.form import read_pairs
from cns_common.aws.protocol.models import load_service
from cns_common.aws.region import region_of_host, region_of_path
from cns_common.clock import Clock
from cqs.messages.receipt_handle import ReceiptHandles
from tests.integration.endpoints.http_endpoints import sender

GROWTH_MAX = 2.5
SIZE = 2_000
Parser = Callable[[bytes], object]
SCOPE = b"AKID/20260101/us-east-1/sqs/aws4_request"


def lines_of(parser: Parser, data: bytes) -> int:
    """Count the lines that a parser runs, whether it accepts the input or not. No garbage is collected meanwhile: its
    finalizers would count."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    gc.disable()
    sys.settrace(count)
    try:
        parser(data)
    except Exception:  # noqa: BLE001  # hostile input is refused: how long that takes is the question
        pass
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


def growth(parser: Parser, piece: bytes) -> float:
    once, twice = (lines_of(parser, piece * (SIZE * times)) for times in (1, 2))
    return twice / once


def signed(authorization: bytes) -> object:
    headers = [(b"host", b"h"), (b"x-amz-date", b"20260101T000000Z"), (b"authorization", authorization)]
    return parse("POST", b"/", b"", headers)


def presigned(query: bytes) -> object:
    return parse("GET", b"/", b"X-Amz-Algorithm=x&" + query, [(b"host", b"h")])


def query_call(service: Any, action: str) -> Parser:
    operation = load_service(service).operations[action]
    return lambda data: operation.parse_query(read_pairs(b"", data))


def json_call(action: str) -> Parser:
    return load_service("sqs").operations[action].parse_json


def pairs_past_the_limit(data: bytes) -> object:
    """Parse all pairs of a form, which happens before their number is checked."""
    return (
        load_service("sqs")
        .operations["SendMessageBatch"]
        .parse_query(
            [tuple(pair.partition("=")[::2]) for pair in data.decode("latin-1").split("&")]  # type: ignore[misc]  # pairs
        )
    )


def authenticator() -> Authenticator:
    return Authenticator(KeyRing([]), Clock(), enforced=False, region="us-east-1", account_id="000000000000")


def digest(data: bytes) -> object:
    return authorization(challenges([data.decode("latin-1")]), EndpointCredentials("u", "p"), DigestInput("/", b""))


def retry_after(data: bytes) -> object:
    return sender_of_dates().retry_after_s(HttpResponse(503, "", [(b"retry-after", data)], b"", 0))


def sender_of_dates() -> HttpSender:
    return sender()


PARSERS: dict[str, tuple[Parser, list[bytes]]] = {
    "scope": (
        lambda data: authenticator().scope_of(data, data),
        [b"Credential=", b"Credential=a/", b"Credential=a%2F1", b"X-Amz-Credential=x/1/a/", b"a"],
    ),
    "authorization header": (signed, [b"a", b"a=b,", b"a=b ", b", ", b"Credential=" + SCOPE + b", ", b"Signature="]),
    "claim of a header": (
        lambda data: claim_of_header(b"AWS4-HMAC-SHA256 Credential=" + SCOPE + b", SignedHeaders=" + data, dated=True),
        [b"a;", b";", b"%;", b"host;", b",Signature="],
    ),
    "presigned query": (presigned, [b"a=b&", b"&", b"=", b"X-Amz-Date=%41&", b"X-Amz-Signature=a&", b"%"]),
    "date": (read_date, [b"1", b"Mon, ", b"1:", b"-", b"(", b"20260101T000000Z "]),
    "query string, split": (lambda data: canonical_query(reencode(split_query(data))), [b"a&", b"%2&", b"+", b"a=b&"]),
    "path": (canonical_path, [b"/", b"/..", b"/a/..", b"a", b"/./", b"%2F", b"//"]),
    "claimed path": (lambda data: FrontDoor.claims("/queue/" + data.decode("latin-1")), [b"a", b"/", b"1/", b"a-/"]),
    "host": (lambda data: region_of_host(data.decode("latin-1")), [b"sqs.", b"a-", b"a-b-1", b"queue.", b"-"]),
    "region of a path": (lambda data: region_of_path("/queue/" + data.decode("latin-1")), [b"a-", b"/", b"1/"]),
    "form": (query_call("sqs", "SendMessage"), [b"a=b&", b"%41", b"&", b"=", b"a.1.b.2=c;"]),
    "form of a batch": (pairs_past_the_limit, [b"SendMessageBatchRequestEntry.1.Id=a&", b"Entries.1.1.1.1=a&", b".=&"]),
    "form of a publish": (query_call("sns", "Publish"), [b"MessageAttributes.entry.1.Name=a&", b"Message=a&"]),
    "JSON": (json_call("SendMessageBatch"), [b'{"a":', b"[", b'"\\ud800"', b"1,", b"{}", b'{"Entries":[1,']),
    "principal's variable": (
        lambda data: template(data.decode("latin-1"), variables=True),
        [b"${", b"${a}", b"$", b"}"],
    ),
    "receipt handle": (
        lambda data: ReceiptHandles(b"key", "0" * 32).read(data.decode("latin-1")),
        [b"A", b"=", b"AQAA", b"\xff"],
    ),
    "confirmation token": (lambda data: is_well_formed(data.decode("latin-1")), [b"0", b"0g", b"\xff"]),
    "ARN": (lambda data: check_subscription_arn(data.decode("latin-1"), ""), [b":", b"a:", b"arn:aws:sns:"]),
    "challenge": (digest, [b'a="', b'Digest nonce="', b"\\", b'Digest a="\\"', b"a ", b", ", b'"', b"qop=a,"]),
    "pause that is asked for": (retry_after, [b"1", b"Mon, ", b" ", b"1:"]),
    "URL": (lambda data: target_of("http://" + data.decode("latin-1")), [b"@", b":", b"a@", b"[", b"/", b"#", b"%"]),
}
CASES = [(name, piece) for name, (_, pieces) in PARSERS.items() for piece in pieces]


@pytest.mark.parametrize(("name", "piece"), CASES)
def test_twice_the_input_takes_twice_the_lines(name: str, piece: bytes) -> None:
    parser = PARSERS[name][0]
    lines_of(parser, piece)  # the first call does more work than later ones
    assert growth(parser, piece) <= GROWTH_MAX


def quadratic(data: bytes) -> int:
    """Each field is compared with those before it."""
    fields = data.split(b"&")
    found = 0
    for index, field in enumerate(fields):
        for other in fields[:index]:
            found += other == field
    return found


def test_a_quadratic_parser_is_found() -> None:
    """Else the test above would prove nothing."""
    assert growth(lambda data: quadratic(data[: len(data) // 10]), b"a&") > GROWTH_MAX


def test_what_is_signed_grows_with_what_was_sent() -> None:
    """A header that SignedHeaders names often is not copied as often."""
    sizes = []
    for times in (1, 2):
        names = b"x;" * (SIZE * times) + b"host"
        text = b"AWS4-HMAC-SHA256 Credential=%b, SignedHeaders=%b, Signature=0" % (SCOPE, names)
        claim, _ = claim_of_header(text, dated=True)
        headers = {b"x": b"v" * SIZE * times, b"host": b"h"}
        request = canonical_request(claim.template, claim.signed_names, b"POST", b"/", b"", headers, b"hash")
        sizes.append(len(request))
    assert sizes[1] <= GROWTH_MAX * sizes[0]
