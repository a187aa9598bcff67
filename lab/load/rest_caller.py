"""The caller of the experiments by the REST API, through the project's own client `cns.client`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx

from cns.client import ApiError, AsyncClient, Credentials
from lab.load.caller import Caller
from lab.load.wire import LoadError

_closing: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class RestCaller(Caller):
    """As `Caller`. Queues are created by SQS, whose answer names the account."""

    _clients: dict[int, AsyncClient] = field(default_factory=dict)

    def close(self) -> None:
        Caller.close(self)
        clients, self._clients = self._clients, {}
        for client in clients.values():
            task = asyncio.ensure_future(client.aclose())
            _closing.add(task)
            task.add_done_callback(_closing.discard)

    async def _ask(self, port: int, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        if operation == "CreateQueue":
            return await Caller._ask(self, port, operation, members)
        try:
            return await self._ask_rest(self._client(port), operation, members)
        except ApiError as error:
            raise LoadError(f"HTTP/1.1 {error.status} {error}") from error
        except httpx.TransportError as error:
            raise LoadError(f"{type(error).__name__} {error}") from error

    async def _ask_rest(self, client: AsyncClient, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        """The members of SQS that the experiments use."""
        queue = str(members["QueueUrl"]).rpartition("/")[2]
        match operation:
            case "SendMessage":
                sent = await client.put_message(
                    queue,
                    members["MessageBody"],
                    group_id=members.get("MessageGroupId"),
                    deduplication_id=members.get("MessageDeduplicationId"),
                )
                return {"MessageId": sent.message_id}
            case "ReceiveMessage":
                message = await client.next_message(queue, wait_seconds=members["WaitTimeSeconds"])
                if message is None:
                    return {}
                received = {"MessageId": message.message_id, "Body": message.body, "ReceiptHandle": message.pop_receipt}
                return {"Messages": [received]}
            case "DeleteMessage":
                await client.acknowledge_message(queue, members["ReceiptHandle"])
                return {}
        raise ValueError(f"no call of the experiments: {operation}")

    def _client(self, port: int) -> AsyncClient:
        client = self._clients.get(port)
        if client is None:
            keys = Credentials(key_id=self.credentials.key_id, secret=self.credentials.secret)
            client = self._clients[port] = AsyncClient(f"http://127.0.0.1:{port}", self.account, keys)
        return client
