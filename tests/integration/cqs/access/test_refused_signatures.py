"""The errors of unsigned calls and of faulty signatures, in AWS JSON and in AWS Query."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from cns_common.aws.auth.accounts import AccessKey
from tests.integration.cqs.door import FORM, JSON, OWNER, SQS_VERSION, Door
from tests.integration.cqs.sqs import ACCOUNT
from tests.integration.cqs.sqs_wire import CORAL
from tests.unit.aws.signed_requests import WRONG_SIGNATURE

spec = pytest.mark.spec
NOBODY = AccessKey(ACCOUNT, "AKIANOBODYNOBODYNOBO", "secret", 0)
TEMPORARY = AccessKey(ACCOUNT, "ASIATEMPORARYTEMPORA", "secret", 0)
IMPOSTOR = AccessKey(ACCOUNT, OWNER.key_id, "not the owner's", 0)
LIST = urlencode({"Action": "ListQueues", "Version": SQS_VERSION})


def date_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


class BothProtocols:
    """One call in AWS JSON and in AWS Query, with the same headers."""

    def __init__(self, door: Door, **headers: str) -> None:
        self._door = door
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def refused(self, status: int, code: str, shape: str, text: str) -> None:
        target = {"content-type": JSON, "x-amz-target": "AmazonSQS.ListQueues"}
        in_json = await self._door.send("POST", "/", self._headers | target, b"{}")
        assert in_json.fault == (status, f"{code};Sender", f"{CORAL}{shape}", text)
        in_query = await self._door.send("POST", "/", self._headers | {"content-type": FORM}, LIST.encode())
        assert in_query.query_fault == (status, code, "Sender", text)

    async def incomplete(self, text: str) -> None:
        await self.refused(400, "IncompleteSignature", "IncompleteSignatureException", text)

    async def mismatched(self, text: str) -> None:
        await self.refused(403, "SignatureDoesNotMatch", "InvalidSignatureException", text)


@spec("refused.unsigned")
@pytest.mark.parametrize("path", ["/", f"/{ACCOUNT}/q"])
async def test_unsigned(door: Door, path: str) -> None:
    await door.queue("q")
    text = f"Access to the resource {door.url}{path} is denied."
    target = {"content-type": JSON, "x-amz-target": "AmazonSQS.DeleteQueue"}
    in_json = await door.send("POST", path, target, b"{}")
    assert in_json.fault == (403, "AccessDenied;Sender", f"{CORAL}AccessDeniedException", text)
    in_query = await door.send("GET", path, query=f"Action=DeleteQueue&Version={SQS_VERSION}")
    assert in_query.query_fault == (403, "AccessDenied", "Sender", text)


@spec("refused.not-parsable", "refused.host-unsigned")
async def test_what_is_not_signed_well(door: Door) -> None:
    """tests/unit/aws has each fault of a signature."""
    date = date_of(door.sqs.clock.wall_ms())
    text = "'abc' not a valid key=value pair (missing equal-sign) in Authorization header: 'Bearer abc'."
    await BothProtocols(door, authorization="Bearer abc", x_amz_date=date).incomplete(text)
    claim = "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=x-amz-date;x-amz-target, Signature=ab"
    text = "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
    await BothProtocols(door, authorization=claim, x_amz_date=date).mismatched(text)


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        pytest.param(
            -16,
            "Signature expired: {signed} is now earlier than {limit} ({now} - 15 min.)",
            marks=spec("refused.too-old"),
        ),
        pytest.param(
            16,
            "Signature not yet current: {signed} is still later than {limit} ({now} + 15 min.)",
            marks=spec("refused.too-new"),
        ),
    ],
)
@spec("sign.window")
async def test_clocks_that_differ(door: Door, minutes: int, words: str) -> None:
    signed_ms = door.sqs.clock.wall_ms() + minutes * 60_000
    reply = await door.query("ListQueues", at_ms=signed_ms)
    status, code, _, text = reply.query_fault
    assert (status, code) == (403, "SignatureDoesNotMatch")
    now_ms = (
        int(datetime.strptime(text.partition("(")[2][:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()) * 1000
    )
    limit_ms = now_ms + (15 if minutes > 0 else -15) * 60_000
    assert text == words.format(signed=date_of(signed_ms), limit=date_of(limit_ms), now=date_of(now_ms))
    assert (await door.query("ListQueues", at_ms=signed_ms - minutes * 60_000 + minutes * 50_000)).status == 200


KEYS: dict[str, tuple[AccessKey, str, str, str]] = {
    "refused.unknown-key": (
        NOBODY,
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    ),
    "sign.temporary-key": (
        TEMPORARY,
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    ),
    "refused.wrong-signature": (IMPOSTOR, "SignatureDoesNotMatch", "InvalidSignatureException", WRONG_SIGNATURE),
}


@pytest.mark.parametrize(
    ("key", "code", "shape", "text"), [pytest.param(*case, marks=spec(rule)) for rule, case in KEYS.items()]
)
async def test_keys(door: Door, key: AccessKey, code: str, shape: str, text: str) -> None:
    in_json = await door.json("ListQueues", key=key)
    assert in_json.fault == (403, f"{code};Sender", f"{CORAL}{shape}", text)
    assert (await door.query("ListQueues", key=key)).query_fault == (403, code, "Sender", text)
