"""Subscribe of an HTTP(S) endpoint where nothing listens: accepted, or refused as by AWS."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from lab.harness.ports import free_port
from lab.harness.running import running
from lab.harness.service import Service


@pytest.mark.extended
@pytest.mark.spec("subscribing.unreachable")
def test_as_aws(tmp_path: Path, receiver: str) -> None:
    with running(tmp_path / "data", environment={"CNS_UNREACHABLE_ENDPOINTS": "refuse"}) as service:
        sns = service.client("sns")
        topic = sns.create_topic(Name="t")["TopicArn"]
        for protocol in ("http", "https"):
            endpoint = f"{protocol}://127.0.0.1:{free_port()}/hook"
            with pytest.raises(ClientError) as refused:
                sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
            error = refused.value.response["Error"]
            assert (error["Code"], error["Message"]) == ("InvalidParameter", "Invalid parameter: Unreachable Endpoint")
        assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []
        listening = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=f"{receiver}/endpoint/reached")
        assert listening["SubscriptionArn"] == "pending confirmation"
        with pytest.raises(ClientError, match="AuthorizationError"):  # the guard comes first
            sns.subscribe(TopicArn=topic, Protocol="http", Endpoint="http://10.255.255.1/")


@pytest.mark.extended
@pytest.mark.parametrize("options", [(), ("--compat", "localstack")], ids=["default", "localstack"])
def test_a_consumer_may_listen_later(tmp_path: Path, options: tuple[str, ...]) -> None:
    with running(tmp_path / "data", *options) as service:
        assert _subscribed(service, f"http://127.0.0.1:{free_port()}/hook") == "pending confirmation"
        assert _subscribed(service, "http://not-yet-there.invalid/hook") == "pending confirmation"


def _subscribed(service: Service, endpoint: str) -> str:
    sns = service.client("sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    return str(sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint)["SubscriptionArn"])
