"""SNS with random invalid calls: no response is a server error, and each error code is in the service model.

The variables `HOSTILE_SEED` and `HOSTILE_CALLS` set the seed and the number of calls.
"""

from __future__ import annotations

import os
from itertools import islice
from urllib.parse import quote_from_bytes

import pytest

from cns.api import operations
from cns_common.aws.auth.accounts import AccessKey
from cns_common.aws.protocol.faults import find_fault
from tests.integration.cqs.door import FORM, Reply
from tests.integration.sns.cns_support import REGION
from tests.integration.sns.protocol.hostile_calls import HostileCalls, Pairs
from tests.integration.sns.sns_door import OWNER, STRANGER, VERSION, SnsDoor
from tests.marks import examples

SEEDS = [int(os.environ["HOSTILE_SEED"])] if "HOSTILE_SEED" in os.environ else [13, 15]
CALLS = int(os.environ.get("HOSTILE_CALLS", examples(1_000)))
SHOWN_CHARS = 200
STRANGERS_SHARE = 10


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_call_fails(sns: SnsDoor, seed: int) -> None:
    hostile = HostileCalls(seed)
    for number, pairs in enumerate(islice(hostile.calls(sorted(operations(sns.rig.service))), CALLS)):
        reply = await send(sns, pairs, OWNER if number % STRANGERS_SHARE else STRANGER)
        shown = [(name, text[:SHOWN_CHARS]) for name, text in pairs]
        assert reply.status < 500, (shown, reply.body)
        if reply.status == 200:
            hostile.learn(reply)
        else:
            status, code, side, _ = reply.query_fault
            fault = find_fault("sns", code)
            assert fault is not None and (fault.status, side) == (status, "Sender"), (shown, reply.body)


async def send(sns: SnsDoor, pairs: Pairs, key: AccessKey) -> Reply:
    """Send the pairs as raw bytes, because some texts are not valid UTF-8."""
    quoted = [[quote_from_bytes(each.encode("utf-8", "surrogatepass")) for each in pair] for pair in pairs]
    body = "&".join(["=".join(pair) for pair in [["Version", VERSION], *quoted]]).encode()
    return await sns.signed("POST", "/", {"content-type": FORM}, body, key=key, service="sns", region=REGION)
