"""pip install testcontainers boto3 pytest"""

import boto3
import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

ANY_KEYS = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}


@pytest.fixture(scope="session")
def endpoint():
    container = DockerContainer("cns").with_command("up --auth off --test-clock").with_exposed_ports(6059)
    with container.waiting_for(HttpWaitStrategy(6059, "/ready")) as cns:
        yield f"http://{cns.get_container_host_ip()}:{cns.get_exposed_port(6059)}"


def test_an_order_arrives(endpoint):
    sqs = boto3.client("sqs", endpoint_url=endpoint, **ANY_KEYS)
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="order 42")
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "order 42"
