"""Only CNS may call the extensions. For other callers they and the internal queues do not exist."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from cns_backend.backend import Backend
from cns_backend.queue_port import access_keys, queue_port
from cns_common.aws.auth.accounts import AccessKey, EmbeddedAccountStore
from cns_common.aws.call import INTERNAL_ACCOUNT
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError
from tests.integration.workers.queue_ports import Cqs, serving

SETTLE = "AmazonSQS.Settle"
DELIVER = "AmazonSQS.Deliver"
UNKNOWN = "AmazonSQS.NoSuchThing"
PUT = {"Sends": [{"Queue": "publish-jobs", "MessageId": "m", "Body": "am9i"}]}
KEY_ID = "AKIAAGREEDONBYBOTH00"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=["on", "off"], scope="module", loop_scope="module")
async def cqs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cqs]:
    """The service with checked signatures, then without."""
    async with serving(tmp_path_factory.mktemp("cqs") / "data", auth=request.param) as running:
        yield running


async def internal_key(backend: Backend) -> AccessKey:
    return await backend.accounts.internal_key(0)


def shown(answer: httpx.Response) -> tuple[object, ...]:
    """The response without the parts that differ between requests."""
    names = [name for name in answer.headers if name != "x-amzn-requestid"]
    return answer.status_code, answer.content, [(name, answer.headers[name]) for name in names if name != "date"]


async def test_to_tenants_and_strangers_they_are_unknown_operations(cqs: Cqs) -> None:
    other = await cqs.backend.accounts.create(0)
    ours = await internal_key(cqs.backend)
    nobody = AccessKey("", "AKIANOBODYKNOWSTHIS0", "x", 0)
    forged = AccessKey("", ours.key_id, "not its secret", 0)
    enforced = cqs.settings.auth == "on"
    for key in (None, cqs.tenant, other, nobody, *([forged] if enforced else [])):
        for body in (json.dumps(PUT).encode(), b"{}", b"not JSON", b'{"Sends": 1}'):
            unknown = shown(await cqs.send(UNKNOWN, body, key))
            assert unknown[0] == 400
            assert b"UnknownOperationException" in unknown[1]  # type: ignore[operator]  # the body
            assert shown(await cqs.send(SETTLE, body, key)) == unknown
            assert shown(await cqs.send(DELIVER, body, key)) == unknown


@pytest.mark.parametrize("action", ["Settle", "Deliver"])
async def test_the_query_protocol_does_not_have_them(cqs: Cqs, action: str) -> None:
    answers = []
    async with httpx.AsyncClient(verify=False) as client:
        for name in (action, "NoSuchThing"):
            form = {"Action": name, "Version": "2012-11-05"}
            answer = await client.post(f"{cqs.url}{cqs.tenant.account}/q", data=form)
            answers.append((answer.status_code, answer.text.replace(name, "X").partition("<RequestId>")[0]))
    assert answers[0] == answers[1]
    assert "is not valid for this endpoint" in answers[0][1]


async def test_to_cns_they_answer(cqs: Cqs) -> None:
    key = await internal_key(cqs.backend)
    answer = await cqs.post(SETTLE, PUT, key)
    assert (answer.status_code, answer.json()) == (200, {"Sends": ["SENT"]})
    answer = await cqs.post(SETTLE, {}, key)
    assert answer.status_code == 400
    assert "EmptyBatchRequest" in answer.text


@pytest.mark.parametrize("address", ["/cns/publish-jobs", "{url}cns/publish-jobs", "publish-jobs"])
async def test_internal_queues_are_seen_by_cns_alone(cqs: Cqs, address: str) -> None:
    key = await internal_key(cqs.backend)
    await cqs.post(SETTLE, PUT, key)
    members = {"QueueUrl": address.format(url=cqs.url)}
    for action in ("ReceiveMessage", "GetQueueAttributes", "DeleteQueue", "PurgeQueue", "SendMessage"):
        answer = await cqs.post(f"AmazonSQS.{action}", members, cqs.tenant)
        assert "QueueDoesNotExist" in answer.text, action
    (message,) = (await cqs.post("AmazonSQS.ReceiveMessage", members, key)).json()["Messages"]
    assert (message["MessageId"], message["Body"]) == ("m", "am9i")


@pytest.mark.parametrize(
    "action", ["SendMessage", "SendMessageBatch", "PurgeQueue", "DeleteQueue", "SetQueueAttributes", "TagQueue"]
)
async def test_harmful_calls_on_internal_queues_are_refused_to_cns(cqs: Cqs, action: str) -> None:
    key = await internal_key(cqs.backend)
    answer = await cqs.post(f"AmazonSQS.{action}", {"QueueUrl": "/cns/publish-jobs", "MessageBody": "m"}, key)
    assert answer.status_code == 400
    assert "UnsupportedOperation" in answer.text


async def test_the_key_is_made_once_and_shown_nowhere(cqs: Cqs) -> None:
    store = cqs.backend.accounts
    assert isinstance(store, EmbeddedAccountStore)
    key = await store.internal_key(1)
    assert await store.internal_key(2) == key
    assert key in await store.keys()
    assert key.account == INTERNAL_ACCOUNT
    accounts = [account.account for account in await store.accounts()]
    assert cqs.tenant.account in accounts
    assert INTERNAL_ACCOUNT not in accounts
    with pytest.raises(RequestError) as refused:
        await store.rotate(INTERNAL_ACCOUNT, 3)
    assert refused.value.code == "NoSuchAccount"
    assert await store.internal_key(4) == key


async def test_a_configured_internal_key(cqs: Cqs) -> None:
    """CNS and CQS have separate data, and a key that both were configured with."""
    given = cqs.settings.model_copy(update={"queue_key_id": KEY_ID, "queue_secret": "s", "queue_url": cqs.url})
    agreed = AccessKey(INTERNAL_ACCOUNT, KEY_ID, "s", 0)
    assert agreed in await access_keys(given, cqs.backend)
    assert agreed not in await access_keys(cqs.settings, cqs.backend)
    port = await queue_port(given.model_copy(update={"queue_port": "http"}), cqs.backend, cqs.queues)
    signing = port._client._service  # type: ignore[attr-defined]  # it signs with this key
    assert (signing.key_id, signing.secret) == (agreed.key_id, agreed.secret)
    await port.close()


@pytest.mark.parametrize(
    "given", [{"queue_key_id": KEY_ID}, {"queue_secret": "s"}, {"queue_key_id": "short", "queue_secret": "s"}]
)
async def test_an_incomplete_internal_key_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="queue_key_id") as refused:
        Settings(**given)  # type: ignore[arg-type]  # texts
    assert "'s'" not in str(refused.value)
