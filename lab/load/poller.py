"""Long polls in a separate process, so that their CPU time and open files are not those of the measuring process.

    python -m lab.load.poller --port 6059 --queues 1000 --polls 10000 --wait 20

Prints a line of JSON (`StartReport`) when all polls are sent, and one (`Status`) for each line on stdin. Ends at the
end of its input.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from itertools import chain, repeat
from pathlib import Path
from time import perf_counter_ns

import msgspec
import uvloop

from lab.harness.server import Server
from lab.load.generator import credentials
from lab.load.queues import Client, handles_in
from lab.load.wire import Script, connect

RAMP_AT_ONCE = 200
QUEUE = "waiting-{}"

_NUMBER = re.compile(rb'"Body": *"wake (\d+)"')


class StartReport(msgspec.Struct, frozen=True):
    first_poll_ns: int  # `perf_counter_ns`, which all processes of a machine share


class Status(msgspec.Struct, frozen=True):
    answers: int
    arrivals_ns: dict[int, int]  # by number of the message


class Polls:
    """Each connection polls one queue again and again."""

    def __init__(self, client: Client, wait_s: int) -> None:
        self._client = client
        self._wait_s = wait_s
        self._answers = 0
        self._arrivals_ns: dict[int, int] = {}

    async def begin(self, queues: int, polls: int) -> StartReport:
        urls = [
            str((await self._client.ask("GetQueueUrl", QueueName=QUEUE.format(n)))["QueueUrl"]) for n in range(queues)
        ]
        first_ns = perf_counter_ns()
        started = 0
        while started < polls:
            for lane in await connect(self._client.server.port, min(RAMP_AT_ONCE, polls - started)):
                lane.start(self._poll(urls[started % queues]))
                self._client.lanes.append(lane)
                started += 1
            await asyncio.sleep(0)
        return StartReport(first_ns)

    def status(self) -> Status:
        return Status(self._answers, self._arrivals_ns)

    def _poll(self, url: str) -> Script:
        """Poll forever. The first polls begin together and wait equally long; the second wait has a random length, so
        that from then on an equal share of the polls ends each second, as with independent clients."""
        signer = self._client.signer
        for wait_s in chain((self._wait_s, self._client.random.randint(1, self._wait_s)), repeat(self._wait_s)):
            poll = msgspec.json.encode({"QueueUrl": url, "WaitTimeSeconds": wait_s})
            answer = yield [], signer.call("ReceiveMessage", poll)
            now_ns = perf_counter_ns()
            self._answers += 1
            for number, handle in zip(_NUMBER.findall(answer), handles_in(answer), strict=True):
                self._arrivals_ns[int(number)] = now_ns
                delete = {"QueueUrl": url, "ReceiptHandle": handle.decode()}
                yield [], signer.call("DeleteMessage", msgspec.json.encode(delete))


async def serve(port: int, queues: int, polls: int, wait_s: int) -> None:
    server = Server(name="server", port=port, pid=0, credentials=credentials(), data=Path())
    polling = Polls(Client(server, await connect(port, 1), seed=0), wait_s)
    _print_json(await polling.begin(queues, polls))
    while await asyncio.to_thread(sys.stdin.readline):
        _print_json(polling.status())


def _print_json(value: msgspec.Struct) -> None:
    print(msgspec.json.encode(value).decode(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--queues", type=int, required=True)
    parser.add_argument("--polls", type=int, required=True)
    parser.add_argument("--wait", type=int, required=True, help="seconds")
    options = parser.parse_args()
    uvloop.run(serve(options.port, options.queues, options.polls, options.wait))


if __name__ == "__main__":
    main()
