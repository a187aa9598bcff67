"""Waiting polls in a process of their own: their work is not the measurer's, nor their open files.

    python -m bench.load.poller --port 6059 --queues 1000 --polls 10000 --wait 20

Prints a line of JSON (`Begun`) when all are sent, and one (`Told`) for each line that it reads; ends with its input.
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

from bench.load.generator import credentials
from bench.load.queues import Client, handles_in
from bench.load.wire import Script, connect
from bench.measure.processes import Server

RAMP_AT_ONCE = 200
QUEUE = "waiting-{}"

_NUMBER = re.compile(rb'"Body": *"wake (\d+)"')


class Begun(msgspec.Struct, frozen=True):
    first_poll_ns: int  # by the clock that all processes of a machine share


class Told(msgspec.Struct, frozen=True):
    answers: int
    arrivals_ns: dict[int, int]  # by the number of what was sent


class Polls:
    """Each connection polls one queue, over and over."""

    def __init__(self, client: Client, wait_s: int) -> None:
        self._client = client
        self._wait_s = wait_s
        self._answers = 0
        self._arrivals_ns: dict[int, int] = {}

    async def begin(self, queues: int, polls: int) -> Begun:
        urls = [
            str((await self._client.ask("GetQueueUrl", QueueName=QUEUE.format(n)))["QueueUrl"]) for n in range(queues)
        ]
        first_ns = perf_counter_ns()
        begun = 0
        while begun < polls:
            for lane in await connect(self._client.server.port, min(RAMP_AT_ONCE, polls - begun)):
                lane.start(self._poll(urls[begun % queues]))
                self._client.lanes.append(lane)
                begun += 1
            await asyncio.sleep(0)
        return Begun(first_ns)

    def told(self) -> Told:
        return Told(self._answers, self._arrivals_ns)

    def _poll(self, url: str) -> Script:
        """All begin at once, and wait for as long; the second wait is of any length, so that after it a share of them
        ends each second, as it is with polls that know nothing of one another."""
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
    _say(await polling.begin(queues, polls))
    while await asyncio.to_thread(sys.stdin.readline):
        _say(polling.told())


def _say(value: msgspec.Struct) -> None:
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
