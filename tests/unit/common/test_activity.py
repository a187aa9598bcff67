"""The log of administrative acts: which acts of a call are recorded, how they are found, and how large the log gets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from cns_common.activity import failure_limit
from cns_common.activity.failure_limit import ACCOUNT as ACCOUNT_BUDGET
from cns_common.activity.failure_limit import ADDRESS, FACE
from cns_common.activity.log import ActivityWriter
from cns_common.activity.record import OK, TEXT_BYTES_MAX, UNKNOWN, Actor, AdministrativeAct, short
from cns_common.activity.recorder import LEAVE_OUT, THROTTLED, ActRecorder
from cns_common.activity.search import ActFilter, newest_acts
from cns_common.aws.call import ANONYMOUS, INTERNAL_ACCOUNT, Call, root_caller
from cns_common.clock import Clock
from cns_common.errors import RequestError

ACCOUNT = "111111111111"
DAY_S = 86_400
SOMEBODY = Actor(via="rest", account=ACCOUNT, principal=f"arn:aws:iam::{ACCOUNT}:root", address="192.0.2.1")


def writer(directory: Path, clock: Clock, bytes_max: int = 10_000_000) -> ActivityWriter:
    return ActivityWriter(directory, "api", clock, retention_s=30 * DAY_S, bytes_max=bytes_max)


def call(account: str = ACCOUNT) -> Call:
    return Call(
        caller=root_caller(account, "AKIAEXAMPLE000000000"),
        region="us-east-1",
        request_id="request-1",
        base_url="http://localhost",
        source_ip="192.0.2.7",
    )


def found(directory: Path, n: int = 1_000, **wanted: Any) -> list[AdministrativeAct]:
    return list(newest_acts(directory, ActFilter(**wanted), n).events)


async def test_an_operation_is_recorded_with_who_where_and_how_it_ended(tmp_path: Path) -> None:
    log = writer(tmp_path, Clock())

    async def create(_: Call, params: dict[str, Any]) -> dict[str, Any]:
        if params["QueueName"] == "bad":
            raise RequestError("InvalidParameterValue", "no")
        return {"QueueUrl": "u"}

    table = ActRecorder(log, Clock()).wrap("sqs", {"CreateQueue": create, "SendMessage": create})
    params = {"QueueName": "orders", "Attributes": {"Policy": "a-secret", "DelaySeconds": "1"}}
    assert await table["CreateQueue"](call(), params) == {"QueueUrl": "u"}
    on_disk = b"".join([path.read_bytes() for path in tmp_path.rglob("*.jsonl*")])
    assert b"orders" in on_disk, "before the answer"
    with pytest.raises(RequestError):
        await table["CreateQueue"](call(), {"QueueName": "bad"})
    await table["CreateQueue"](call(INTERNAL_ACCOUNT), {"QueueName": "internal"})
    assert table["SendMessage"] is create
    log.close()
    bad, good = found(tmp_path)
    assert (bad.action, bad.target, bad.result) == ("sqs:CreateQueue", "bad", "InvalidParameterValue")
    assert (good.target, good.detail, good.result) == ("orders", "DelaySeconds, Policy", OK)
    assert (good.account, good.key_id, good.address) == (ACCOUNT, "AKIAEXAMPLE000000000", "192.0.2.7")
    assert (good.via, good.request_id) == ("aws", "request-1")
    assert not any(b"a-secret" in path.read_bytes() for path in tmp_path.rglob("*.jsonl*"))


async def test_an_act_whose_caller_is_gone_is_recorded_as_unknown(tmp_path: Path) -> None:
    log = writer(tmp_path, Clock())

    async def never() -> None:
        await asyncio.Event().wait()

    acting = asyncio.create_task(ActRecorder(log, Clock()).run(SOMEBODY, "cns:DeleteAccount", never(), "target"))
    await asyncio.sleep(0)
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    log.close()
    (act,) = found(tmp_path)
    assert (act.action, act.result) == ("cns:DeleteAccount", "OutcomeUnknown")


async def test_filters(tmp_path: Path) -> None:
    clock = Clock(test=True)
    log = writer(tmp_path, clock)
    recorder = ActRecorder(log, clock)
    began_ms = clock.now_ms()
    for n in range(30):
        other = SOMEBODY._replace(account="222222222222", principal="cns:operator")
        result = OK if n % 3 else "AccessDenied"
        await recorder.record(
            SOMEBODY if n % 2 else other, f"sqs:{'Delete' if n % 5 else 'Create'}Queue", result, f"q{n}"
        )
        clock.advance(60_000)
    log.close()
    assert [act.target for act in found(tmp_path, 3)] == ["q29", "q28", "q27"]
    assert [act.target for act in found(tmp_path, account=ACCOUNT, only_failures=True)] == [
        "q27",
        "q21",
        "q15",
        "q9",
        "q3",
    ]
    assert [act.target for act in found(tmp_path, action="create", principal="operator")] == ["q20", "q10", "q0"]
    since_ms = began_ms + 10 * 60_000
    assert [act.target for act in found(tmp_path, since_ms=since_ms, until_ms=since_ms + 120_000)] == ["q11", "q10"]
    assert newest_acts(tmp_path, ActFilter(), 1_000).complete


async def test_the_oldest_go_first_by_size_and_by_age(tmp_path: Path) -> None:
    clock = Clock(test=True)
    log = writer(tmp_path, clock, bytes_max=40_000)
    recorder = ActRecorder(log, clock)
    for n in range(400):
        await recorder.record(SOMEBODY, "sqs:CreateQueue", OK, f"q{n:04}" + "x" * 200)
    clock.advance(61_000)  # the next clean-up
    await recorder.record(SOMEBODY, "sqs:CreateQueue", OK, "last")
    log.close()
    assert sum([path.stat().st_size for path in tmp_path.rglob("*.jsonl*")]) < 60_000
    kept = found(tmp_path)
    assert kept[0].target == "last" and kept[1].target.startswith("q0399") and len(kept) < 200
    clock.advance(31 * DAY_S * 1000)
    again = writer(tmp_path, clock, bytes_max=40_000)
    await ActRecorder(again, clock).record(SOMEBODY, "cns:AddUser", OK)
    again.close()
    assert [act.action for act in found(tmp_path)] == ["cns:AddUser"]


async def test_an_act_that_the_disk_refuses_goes_on_and_is_in_the_process_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cns_common.activity.log.WAIT_S_MAX", 0.05)
    tmp_path.joinpath("acts").write_text("a file is where the directory should be")
    log = writer(tmp_path / "acts", Clock())
    with capture_logs() as lines:
        await ActRecorder(log, Clock()).record(SOMEBODY, "sqs:DeleteQueue", OK, "q")
    log.close()
    unrecorded = [line for line in lines if line["event"] == "act.unrecorded"]
    assert [(line["action"], line["target"], line["account"]) for line in unrecorded] == [
        ("sqs:DeleteQueue", "q", ACCOUNT)
    ]


class Now:
    s = 50.0

    def __call__(self) -> float:
        return self.s


class MemoryLog:
    """A log in memory."""

    def __init__(self) -> None:
        self.acts: list[AdministrativeAct] = []
        self.failed: list[AdministrativeAct] = []
        self.closed = False

    async def record(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        self.record_later(act, failed=failed)

    def record_later(self, act: AdministrativeAct, *, failed: bool = False) -> None:
        self.acts.append(act)
        if failed:
            self.failed.append(act)

    def close(self) -> None:
        self.closed = True


STRANGER = Actor(via="aws", address="192.0.2.9")


async def fail(recorder: ActRecorder, actor: Actor, n: int = 1) -> None:
    for _ in range(n):
        await recorder.record(actor, "sqs:DeleteQueue", "AccessDenied", "q", "Policy")


async def test_failures_of_anonymous_callers_are_few_and_the_next_has_the_number_of_the_others() -> None:
    now, kept = Now(), MemoryLog()

    async def unsubscribe(given: Call, params: dict[str, Any]) -> dict[str, Any]:
        if params["SubscriptionArn"] == "gone":
            given.changed = False
            return {}
        if params["SubscriptionArn"] == "mine":
            return {}
        raise RequestError("AuthorizationError", "no")

    table = ActRecorder(kept, Clock(), now).wrap("sns", {"Unsubscribe": unsubscribe})
    anonymous = call()
    anonymous.caller = ANONYMOUS

    async def refuse(caller: Call) -> None:
        with pytest.raises(RequestError):
            await table["Unsubscribe"](caller, {"SubscriptionArn": "x" * 5_000})

    for _ in range(2_400):
        await refuse(anonymous)
    await table["Unsubscribe"](anonymous, {"SubscriptionArn": "gone"})
    assert len(kept.acts) == len(kept.failed) == ADDRESS.burst
    await table["Unsubscribe"](anonymous, {"SubscriptionArn": "mine"})
    await refuse(call())
    assert [(act.account, act.result, act.detail) for act in kept.acts[ADDRESS.burst :]] == [
        ("", OK, ""),
        (ACCOUNT, "AuthorizationError", ""),
    ]
    now.s += ADDRESS.interval_s
    await refuse(anonymous)
    assert kept.acts[-1].detail == f"{2_401 - ADDRESS.burst} more before failed or changed nothing"


async def test_a_day_of_failures_is_small_however_many_addresses_they_come_from() -> None:
    now, kept = Now(), MemoryLog()
    recorder = ActRecorder(kept, Clock(), now)
    for minute in range(24 * 60):
        for n in range(20):
            await fail(recorder, STRANGER._replace(address=f"2001:db8::{minute:x}:{n:x}"))
        now.s += 60
    assert len(kept.acts) <= FACE.burst + DAY_S / FACE.interval_s + 24, "the budget of the face, and its summaries"
    assert sum(len(msgspec.json.encode(act)) for act in kept.acts) < 5_000_000


async def test_one_address_does_not_use_up_what_is_recorded_of_others() -> None:
    kept = MemoryLog()
    recorder = ActRecorder(kept, Clock(), Now())
    await fail(recorder, STRANGER, 1_000)
    other = STRANGER._replace(address="192.0.2.10")
    await fail(recorder, other)
    assert kept.acts[-1].address == other.address


async def test_failures_of_an_account_are_limited_apart_from_others_and_from_its_portal() -> None:
    now, kept = Now(), MemoryLog()
    recorder = ActRecorder(kept, Clock(), now)
    visitor = SOMEBODY._replace(via="portal", principal="cns:portal/1")
    other = SOMEBODY._replace(account="222222222222")
    operator = SOMEBODY._replace(account="", principal="cns:operator")
    for actor in (SOMEBODY, visitor, other, operator):
        await fail(recorder, actor, ACCOUNT_BUDGET.burst + 40)
    assert len(kept.acts) == 4 * ACCOUNT_BUDGET.burst
    for result in (OK, UNKNOWN):
        for _ in range(50):
            await recorder.record(SOMEBODY, "sqs:DeleteQueue", result, "q")
    assert len(kept.acts) == 4 * ACCOUNT_BUDGET.burst + 100, "what was done, or may have been, is always recorded"
    assert len(kept.failed) == 4 * ACCOUNT_BUDGET.burst
    now.s += ACCOUNT_BUDGET.interval_s
    await fail(recorder, SOMEBODY)
    assert kept.acts[-1].detail == "Policy, 40 more before failed or changed nothing"


async def test_sign_ins_and_shown_secrets_are_limited_as_failures_are() -> None:
    now, kept = Now(), MemoryLog()
    recorder = ActRecorder(kept, Clock(), now)
    visitor = SOMEBODY._replace(via="portal", principal="cns:portal/1")
    for actor, action in ((SOMEBODY, "cns:SignIn"), (visitor, "cns:RevealWebhookSecret")):
        for _ in range(ACCOUNT_BUDGET.burst + 7):
            await recorder.record(actor, action, OK)
    assert len(kept.acts) == len(kept.failed) == 2 * ACCOUNT_BUDGET.burst
    now.s += ACCOUNT_BUDGET.interval_s
    await recorder.record(SOMEBODY, "cns:SignIn", OK)
    assert (kept.acts[-1].result, kept.acts[-1].detail) == (OK, "7 more before failed or changed nothing")


async def test_all_acts_of_callers_without_credentials_are_recorded_apart() -> None:
    kept = MemoryLog()
    recorder = ActRecorder(kept, Clock(), Now())
    visitor = SOMEBODY._replace(via="portal", principal="cns:portal/1")
    for actor in (visitor, STRANGER):
        for _ in range(ACCOUNT_BUDGET.burst + 7):
            await recorder.record(actor, "cns:PauseDeliveries", OK)
    assert len(kept.acts) == len(kept.failed) == 2 * (ACCOUNT_BUDGET.burst + 7), "they did something: none is left out"
    await recorder.record(Actor(via="command", principal="root@host"), "cns:PauseDeliveries", OK)
    assert len(kept.acts) == len(kept.failed) + 1


async def test_what_was_left_out_is_summed_up_within_an_hour_or_at_the_end() -> None:
    now, kept = Now(), MemoryLog()
    recorder = ActRecorder(kept, Clock(), now)
    await fail(recorder, STRANGER, ADDRESS.burst + 7)
    now.s += failure_limit.SUMMARY_S
    await recorder.record(SOMEBODY, "sqs:DeleteQueue", OK, "q")
    done, summary = kept.acts[-2:]
    text = "{} further acts that failed or changed nothing were not recorded"
    assert (done.result, summary.action, summary.result) == (OK, LEAVE_OUT, THROTTLED)
    assert (summary.detail, summary.address, summary.via) == (text.format(7), STRANGER.address, "aws")
    await recorder.record(SOMEBODY, "sqs:DeleteQueue", OK, "q")
    assert kept.acts[-1].action == "sqs:DeleteQueue", "once"
    await fail(recorder, SOMEBODY, ACCOUNT_BUDGET.burst + 3)
    recorder.close()
    assert kept.closed and kept.acts[-1].detail == text.format(3)


async def test_accounts_without_end_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_limit, "SOURCES_MAX", 3)
    limit = failure_limit.FailureLimit(Now())
    admitted = [limit.admit(Actor(via="aws", account=f"{n:012}")) for n in range(1_000)]
    assert sum(one is not None for one in admitted) == 3 + ACCOUNT_BUDGET.burst


async def test_failures_push_no_act_out_that_was_done(tmp_path: Path) -> None:
    clock, now = Clock(test=True), Now()
    log = writer(tmp_path, clock, bytes_max=40_000)
    recorder = ActRecorder(log, clock, now)
    await recorder.record(SOMEBODY, "sqs:CreateQueue", OK, "first")
    for n in range(600):
        now.s += ACCOUNT_BUDGET.interval_s  # each is recorded
        await recorder.record(SOMEBODY, "sqs:DeleteQueue", "AccessDenied", f"q{n:03}" + "x" * 200)
        if n % 100 == 99:
            clock.advance(61_000)  # the next clean-up
    await recorder.record(SOMEBODY, "sqs:CreateQueue", OK, "last")
    recorder.close()
    kept = found(tmp_path)
    assert [act.target for act in kept if act.result == OK] == ["last", "first"]
    assert [act.target[:4] for act in found(tmp_path, 2)] == ["last", "q599"], "by time, of both directories"
    assert sum([path.stat().st_size for path in tmp_path.rglob("*.jsonl*")]) < 70_000
    assert 5 < len(kept) < 200


@pytest.mark.parametrize("text", ["x", '"', "\\", "\x00", "é", "🙂", "\ud800", "\n\x01x"])
def test_texts_are_cut_by_their_size_in_the_file(text: str) -> None:
    cut = short(text * 5_000)
    size_bytes = len(msgspec.json.encode(cut)) - 2
    assert TEXT_BYTES_MAX - 6 < size_bytes <= TEXT_BYTES_MAX
    assert short(text) == text.encode(errors="replace").decode()
