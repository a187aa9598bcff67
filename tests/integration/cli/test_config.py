"""A file of queues, topics and subscriptions, applied to a service and exported again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cns_cli.config import resources
from cns_cli.config.at_start import ServiceCalls
from cns_cli.config.changes import Change, plan_file, run_steps
from cns_cli.config.document import read_text
from cns_cli.config.export import Exporter, yaml_text
from cns_cli.config.source import ConfigError
from cns_common.configuration.settings import Settings
from cns_common.errors import RequestError
from tests.integration.errors.api_forms import REGION, embedded_api
from tests.marks import examples

FILE = """
queues:
  orders:
    attributes: {VisibilityTimeout: 60, RedriveAllowPolicy: {redrivePermission: denyAll}}
    tags: {team: shop, version: 1.10, on: off}
    deadLetterQueue: {queue: orders-dead, maxReceiveCount: 5}
  orders-dead:
  jobs.fifo:
    attributes: {ContentBasedDeduplication: true}
  shared:
    policy:
      Version: 2012-10-17
      Statement:
        - {Effect: Allow, Principal: "*", Action: "sqs:*", Resource: "arn:aws:sqs:${region}:${account}:shared"}
topics:
  news:
    attributes: {DisplayName: News, DeliveryPolicy: {http: {defaultHealthyRetryPolicy:
      {minDelayTarget: 1, maxDelayTarget: 2, numRetries: 3}}}}
    tags: {a: 1e3}
  steps.fifo:
subscriptions:
  - topic: news
    protocol: sqs
    endpoint: orders
    rawDelivery: true
    filterPolicy: {kind: [order, {numeric: [">", 1.50]}]}
    deadLetterQueue: orders-dead
    allow: true
  - {topic: news, protocol: sqs, endpoint: shared, allow: true}
  - {topic: steps.fifo, protocol: sqs, endpoint: jobs.fifo}
"""
TO_QUEUE = "subscriptions: [{topic: t, protocol: sqs, endpoint: q"
_accounts = count(100_000_000_000)


class Service:
    """Accounts of one service in this process. Each is empty."""

    def __init__(self, directory: Path, front: Any) -> None:
        self._settings = Settings(data=directory, auth="off", region=REGION)
        self._front = front

    def account(self) -> ServiceCalls:
        return ServiceCalls(self._front, self._settings, str(next(_accounts)))


class Killed(Exception):
    """Ends an apply between two calls."""


class KilledCalls(ServiceCalls):
    def __init__(self, calls: ServiceCalls, left: int) -> None:
        self.__dict__ = {**calls.__dict__}
        self._left = left

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        if not action.startswith(("Get", "List")):
            self._left -= 1
        if self._left < 0:
            raise Killed
        return await super().run(service, action, **params)


@asynccontextmanager
async def open_service(directory: Path) -> AsyncIterator[Service]:
    async with embedded_api(directory) as form:
        yield Service(directory, form.front)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(tmp_path / "data") as found:
        yield found


@pytest.fixture
def calls(service: Service) -> ServiceCalls:
    return service.account()


async def apply(calls: ServiceCalls, text: str, *, prune: bool = False) -> list[Change]:
    done: list[Change] = []
    await run_steps(await plan_file(read_text("f.yaml", text), lambda _: calls, prune=prune), done.append)
    return done


async def differences(calls: ServiceCalls, text: str, *, prune: bool = False) -> list[Change]:
    planned = await plan_file(read_text("f.yaml", text), lambda _: calls, prune=prune)
    return [one.change for one in planned if one.change.action != "keep"]


async def exported(calls: ServiceCalls) -> dict[str, Any]:
    return await Exporter(calls).contents()


async def test_a_file_is_made_once(calls: ServiceCalls) -> None:
    assert {one.action for one in await apply(calls, FILE)} == {"create"}
    assert await differences(calls, FILE, prune=True) == []
    assert {one.action for one in await apply(calls, FILE, prune=True)} == {"keep"}


async def test_an_export_makes_the_same_in_another_account(service: Service) -> None:
    first, second = service.account(), service.account()
    await apply(first, FILE)
    found = await exported(first)
    assert await differences(first, yaml_text(found), prune=True) == []
    assert found["queues"]["orders"]["tags"] == {"team": "shop", "version": "1.10", "on": "off"}
    assert [one.get("allow", False) for one in found["subscriptions"]] == [True, False, False]
    assert first.account not in json.dumps(found)
    await apply(second, yaml_text(found))
    assert await exported(second) == found
    assert await differences(second, json.dumps(found, indent="\t"), prune=True) == []


async def test_a_changed_file_changes_what_exists(calls: ServiceCalls) -> None:
    """CreateQueue alone would refuse another value of an attribute."""
    await apply(calls, FILE)
    changed = (
        FILE.replace("VisibilityTimeout: 60", "VisibilityTimeout: 61")
        .replace("team: shop, ", "")
        .replace("DisplayName: News", "DisplayName: Old news")
        .replace("rawDelivery: true", "rawDelivery: false")
        .replace("deadLetterQueue: {queue: orders-dead, maxReceiveCount: 5}", "deadLetterQueue: null")
    )
    done = {
        (one.kind, one.name.rpartition(":")[2]): sorted(value.name for value in one.values)
        for one in await apply(calls, changed)
        if one.action != "keep"
    }
    assert done == {
        ("queue", "orders"): ["RedrivePolicy", "VisibilityTimeout", "tags"],
        ("topic", "news"): ["DisplayName"],
        ("subscription", "orders"): ["RawMessageDelivery"],
    }
    assert await differences(calls, changed, prune=True) == []
    assert "deadLetterQueue" not in (await exported(calls))["queues"]["orders"]


async def test_what_a_file_does_not_give_stays(calls: ServiceCalls) -> None:
    await apply(calls, FILE)
    before = await exported(calls)
    assert await differences(calls, "queues: {orders: {attributes: {DelaySeconds: 0}}}\ntopics: {news: }") == []
    assert await exported(calls) == before


async def test_prune_deletes_what_a_file_does_not_have(service: Service) -> None:
    one, other = service.account(), service.account()
    for calls in (one, other):
        await apply(calls, FILE)
    before = await exported(other)
    deleted = [(change.action, change.kind) for change in await apply(one, "queues: {orders: }", prune=True)]
    assert deleted == [
        ("keep", "queue"),
        *[("delete", "subscription")] * 3,
        *[("delete", "topic")] * 2,
        *[("delete", "queue")] * 3,
    ]
    found = await exported(one)
    assert (list(found["queues"]), found["topics"], found["subscriptions"]) == (["orders"], {}, [])
    assert await exported(other) == before


async def test_prune_keeps_what_an_account_has_of_which_the_file_names_nothing(calls: ServiceCalls) -> None:
    await apply(calls, FILE)
    for text in ("", f"accounts: {{{calls.account}: {{name: Shop}}}}"):
        assert await differences(calls, text, prune=True) == []
    assert len(await differences(calls, "queues: {}", prune=True)) == 9


async def test_prune_keeps_what_the_file_refers_to(service: Service) -> None:
    """Else the next apply would be refused."""
    one, other = calls = [service.account(), service.account()]
    for each in calls:
        await apply(each, "queues: {dead: , sub-dead: , in: , t: }\ntopics: {t: , in: }")
    t = f"arn:aws:sns:{REGION}:{other.account}:t"
    text = f"""accounts:
  {one.account}:
    queues: {{q: {{deadLetterQueue: {{queue: dead, maxReceiveCount: 3}}}}}}
    subscriptions: [{{topic: {t}, protocol: sqs, endpoint: in, deadLetterQueue: sub-dead}}]
  {other.account}: {{queues: {{}}}}"""
    known = {each.account: each for each in calls}
    planned = await plan_file(read_text("f.yaml", text), known.__getitem__, prune=True)
    changes = [each.change for each in planned if each.change.action == "delete"]
    deleted = [(each.account, each.kind, each.name) for each in changes]
    assert deleted == [
        (one.account, "topic", "in"),
        (one.account, "topic", "t"),
        (one.account, "queue", "t"),
        (other.account, "topic", "in"),
        *[(other.account, "queue", name) for name in ("dead", "in", "sub-dead", "t")],
    ]


async def test_an_account_has_its_resources_in_one_place(calls: ServiceCalls) -> None:
    """In two parts, each would prune what the other has."""
    await apply(calls, "queues: {a: , b: }")
    part = f"accounts: {{{calls.account}: {{name: Shop, queues: {{b: }}}}}}"
    with pytest.raises(ConfigError, match=r"^f\.yaml:2: accounts\.\d+: has resources at the top of the file, too"):
        await apply(calls, f"queues: {{a: }}\n{part}", prune=True)
    assert await differences(calls, f"queues: {{a: , b: }}\n{part.replace(', queues: {b: }', '')}", prune=True) == []
    assert list((await exported(calls))["queues"]) == ["a", "b"]


async def test_accounts_subscribe_to_each_others_topics(service: Service) -> None:
    calls = {one.account: one for one in (service.account(), service.account())}
    policy = "{Statement: {Effect: Allow, Principal: '*', Action: 'sns:Subscribe', Resource: '*'}}"
    text = "accounts:\n"
    for one, other in zip(calls, reversed(calls), strict=True):
        topic = f"arn:aws:sns:{REGION}:{other}:t"
        text += f"  {one}: {{topics: {{t: {{policy: {policy}}}}}, queues: {{q: }}, "
        text += f"subscriptions: [{{topic: '{topic}', protocol: sqs, endpoint: q, allow: true}}]}}\n"
    document = read_text("f.yaml", text)
    for action in ("create", "keep"):
        planned = await plan_file(document, calls.__getitem__)
        assert [one.change.action for one in planned] == [action] * 6
        await run_steps(planned, lambda _: None)


def no_account(number: str) -> ServiceCalls:
    raise RequestError("InvalidParameter", "there are 2 accounts")


async def test_a_part_of_no_account_is_one_of_the_problems() -> None:
    with pytest.raises(ConfigError) as refused:
        await plan_file(read_text("f.yaml", "queues: {q: }\naccounts: {12: {queues: {q: }}}"), no_account)
    assert refused.value.lines == [
        "f.yaml:1: there are 2 accounts",
        "f.yaml:2: accounts.12: String should match pattern '^[0-9]{12}$'",
    ]


async def test_a_name_for_display_that_only_begins_as_json(calls: ServiceCalls) -> None:
    text = "topics: {t: {attributes: {DisplayName: '{hello'}}}"
    await apply(calls, text)
    assert (await exported(calls))["topics"] == {"t": {"attributes": {"DisplayName": "{hello"}}}


async def test_queues_that_are_each_others_dead_letter_queue(calls: ServiceCalls) -> None:
    text = "topics: {t: }\nsubscriptions:\n"
    text += "".join(f"  - {{topic: t, protocol: sqs, endpoint: q{n}, allow: true}}\n" for n in range(3)) + "queues:\n"
    policy = "{Statement: {Effect: Allow, Principal: '*', Action: 'sqs:*', Resource: '*'}}"
    for n in range(3):
        text += f"  q{n}: {{policy: {policy}, deadLetterQueue: {{queue: q{(n + 1) % 3}, maxReceiveCount: 3}}}}\n"
    await apply(calls, text)
    assert await differences(calls, text, prune=True) == []
    found = (await exported(calls))["queues"]["q2"]
    assert found["deadLetterQueue"] == {"queue": "q0", "maxReceiveCount": 3}
    assert len(found["policy"]["Statement"]) == 2


async def test_a_scope_and_its_policy_change_together(calls: ServiceCalls) -> None:
    """A nested policy is valid for bodies only, so the order of the two calls depends on the direction."""
    base = "topics: {t: }\nqueues: {q: }\nsubscriptions: [{topic: t, protocol: sqs, endpoint: q, %s}]"
    attributes = base % "filterPolicyScope: MessageAttributes, filterPolicy: {a: [b]}"
    body = base % "filterPolicyScope: MessageBody, filterPolicy: {a: {b: [c]}}"
    for text in (attributes, body, attributes, body):
        await apply(calls, text)
        assert await differences(calls, text, prune=True) == []


async def test_an_allowed_topic_keeps_the_other_statements(calls: ServiceCalls) -> None:
    await apply(calls, FILE)
    queue = (await exported(calls))["queues"]["shared"]
    assert len(queue["policy"]["Statement"]) == 2
    more = FILE.replace(
        "endpoint: shared, allow: true}",
        "endpoint: shared}\n  - {topic: more, protocol: sqs, endpoint: orders, allow: true}",
    )
    await apply(calls, more.replace("topics:", "topics:\n  more:", 1))
    policy = await calls.run(
        "sqs", "GetQueueAttributes", QueueUrl=f"http://cns/{calls.account}/orders", AttributeNames=["Policy"]
    )
    sources = [
        one["Condition"]["ArnEquals"]["aws:SourceArn"]
        for one in json.loads(policy["Attributes"]["Policy"])["Statement"]
    ]
    assert [arn.rpartition(":")[2] for arn in sources] == ["news", "more"]


async def test_a_subscription_that_is_not_confirmed_is_asked_once(calls: ServiceCalls) -> None:
    text = "topics: {t: }\nsubscriptions: [{topic: t, protocol: https, endpoint: 'https://u:pw@example.com/x'}]"
    await apply(calls, text)
    assert await differences(calls, text, prune=True) == []
    exporter = Exporter(calls)
    found = await exporter.contents()
    assert "pw" not in json.dumps(found)
    assert [note.rpartition("example.com/x")[2] for note in exporter.notes] == [
        " is not confirmed: its attributes are not in the export",
        ": its password is not in the export",
    ]


async def test_an_apply_that_was_killed_is_completed_by_the_next(service: Service) -> None:
    """Killed before each of its calls, in an empty account and in one with other values."""
    changed = FILE.replace("DisplayName: News", "DisplayName: Old").replace("a: 1e3", "b: c").replace(": 1.10", ": 2")
    for before, calls_least in ((None, 9), (changed, 4)):
        for after in count():
            calls = service.account()
            if before is not None:
                await apply(calls, before)
            killed = False
            try:
                await apply(KilledCalls(calls, after), FILE)
            except Killed:
                killed = True
            await apply(calls, FILE)
            assert await differences(calls, FILE, prune=True) == []
            if not killed:
                break
        assert after >= calls_least


class JustDeleted(ServiceCalls):
    """Refuses to create queues for the next `left` times."""

    def __init__(self, calls: ServiceCalls, left: int) -> None:
        self.__dict__ = {**calls.__dict__}
        self.left = left

    async def run(self, service: str, action: str, **params: Any) -> dict[str, Any]:
        if action == "CreateQueue" and self.left:
            self.left -= 1
            raise RequestError("AWS.SimpleQueueService.QueueDeletedRecently", "You must wait 60 seconds.")
        return await super().run(service, action, **params)


async def test_a_queue_that_was_just_deleted_is_made_when_its_name_is_free(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resources, "DELETED_WAIT_S", 0)
    calls = JustDeleted(service.account(), 60)
    assert [one.action for one in await apply(calls, "queues: {q: }")] == ["create"]
    assert capsys.readouterr().err == "cns: queue q: You must wait 60 seconds.\n"
    calls.left = 1_000
    with pytest.raises(ConfigError, match=r"^f\.yaml:1: queues\.q2: AWS\.SimpleQueueService\.QueueDeletedRecently: "):
        await apply(calls, "queues: {q2: }")
    assert calls.left > 900


REFUSED = """
queue: {}
queues:
  a b: {}
  a:
    attributes: {VisibilityTimout: 3, DelaySeconds: 901, Policy: {}, DeduplicationScope: queue}
    tags: {k: [v]}
  b.fifo:
    deadLetterQueue: {queue: a}
  c: {policy: "{", tags: {aws:x: y}}
  d: 5
  e.fifo: {attributes: {FifoQueue: false}}
  g.fifo: {deadLetterQueue: {queue: a, maxReceiveCount: 3}}
  h: {deadLetterQueue: {queue: "arn:aws:sqs:us-east-1:999999999999:a", maxReceiveCount: 3}}
  i:
    attributes: {RedriveAllowPolicy: {redrivePermission: byQueue, sourceQueueArns: ["arn:aws:sqs:mars-1:1:a"]}}
topics:
  t.fifo: {attributes: {Owner: me, DisplayName: "a\\nb"}}
subscriptions:
  - {topic: t.fifo, protocol: http, endpoint: "http://h/"}
  - {topic: t, protocol: http, endpoint: a, allow: true}
  - {topic: t, protocol: sqs, endpoint: a, filterPolicy: {a: b}, filterPolicyScope: MessageBody}
  - {topic: t, protocol: sqs, endpoint: "arn:aws:sqs:us-east-1:123456789012:x", allow: true}
  - {topic: t, protocol: sqs, endpoint: b}
  - {topic: t, protocol: sqs, endpoint: b}
  - {topic: "b d", protocol: sqs, endpoint: b}
  - {topic: "", protocol: sqs, endpoint: b}
  - {topic: "arn:aws:sns:us-east-1", protocol: sqs, endpoint: b}
  - {topic: "arn:aws:sns:mars-1:123456789012:t", protocol: sqs, endpoint: b}
"""


async def test_a_file_is_refused_as_a_whole_with_the_place_of_each_fault(calls: ServiceCalls) -> None:
    with pytest.raises(ConfigError) as refused:
        await apply(calls, REFUSED, prune=True)
    assert [line.partition(": ")[0] + ": " + line.split(": ")[1] for line in refused.value.lines] == [
        "f.yaml:2: queue",
        "f.yaml:4: queues.a b",
        "f.yaml:6: queues.a.attributes.Policy",
        "f.yaml:6: queues.a.attributes.VisibilityTimout",
        "f.yaml:6: queues.a.attributes.DelaySeconds",
        "f.yaml:6: queues.a.attributes.DeduplicationScope",
        "f.yaml:7: queues.a.tags.k",
        "f.yaml:9: queues.b.fifo.deadLetterQueue.maxReceiveCount",
        "f.yaml:10: queues.c",
        "f.yaml:10: queues.c.policy",
        "f.yaml:11: queues.d",
        "f.yaml:12: queues.e.fifo.attributes.FifoQueue",
        "f.yaml:13: queues.g.fifo.deadLetterQueue",
        "f.yaml:14: queues.h.deadLetterQueue",
        "f.yaml:16: queues.i.attributes.RedriveAllowPolicy",
        "f.yaml:18: topics.t.fifo.attributes.Owner",
        "f.yaml:18: topics.t.fifo.attributes.DisplayName",
        "f.yaml:20: subscriptions.0",
        "f.yaml:21: subscriptions.1",
        "f.yaml:22: subscriptions.2.filterPolicy",
        "f.yaml:23: subscriptions.3.allow",
        "f.yaml:25: subscriptions.5",
        *[f"f.yaml:{line}: subscriptions.{line - 20}" for line in range(26, 30)],
    ]
    assert "f.yaml:6: queues.a.attributes.DelaySeconds: Invalid value for the parameter DelaySeconds." in str(
        refused.value
    )
    assert await exported(calls) == {"queues": {}, "topics": {}, "subscriptions": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: {q: {deadLetterQueue: {queue: none, maxReceiveCount: 2}}}", "f.yaml:1: queues.q.deadLetterQueue: "),
        (
            "topics: {t: }\nsubscriptions: [{topic: t, protocol: sqs, endpoint: q, allow: true}]",
            "f.yaml:2: subscriptions.0: QueueDoesNotExist: ",
        ),
        (
            "subscriptions: [{topic: t, protocol: sqs, endpoint: q}]",
            "f.yaml:1: subscriptions.0: NotFound: Topic does not exist",
        ),
        (
            "topics: {t: }\nsubscriptions: [{topic: t, protocol: https, endpoint: 'https://a:****@example.com/'}]",
            "f.yaml:2: subscriptions.0: InvalidParameter: the endpoint has no password",
        ),
    ],
)
async def test_a_refusal_of_the_service_names_the_place(calls: ServiceCalls, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await apply(calls, text)
    assert str(refused.value).startswith(said)


# -- random files -----------------------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs", "So")), max_size=12)
_WORDS = st.one_of(
    st.sampled_from(["on", "1e3", "null", "~", "0x10", "1_0", "2012-10-17", "true", "-.5", "${x}"]), _TEXT
)
_TAGS = st.dictionaries(_TEXT.filter(lambda key: key and not key.lower().startswith("aws:")), _WORDS, max_size=3)
_NAMES = st.sampled_from(["a", "b", "c-d", "e_f", "0", "true"])
_FILTER = st.dictionaries(
    st.sampled_from(["kind", "size"]),
    st.lists(st.one_of(_WORDS, st.integers(-999, 999), st.booleans(), st.none()), min_size=1, max_size=3),
    min_size=1,
)


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    queues: dict[str, Any] = {}
    suffixes = {name: draw(st.sampled_from(["", ".fifo"])) for name in ("q", "t")}
    for name in draw(st.lists(_NAMES, unique=True, max_size=4)):
        queue: dict[str, Any] = {"tags": draw(_TAGS)}
        queue["attributes"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "VisibilityTimeout": st.integers(0, 43_200),
                    "DelaySeconds": st.integers(0, 900),
                    "SqsManagedSseEnabled": st.booleans(),
                    "RedriveAllowPolicy": st.just({"redrivePermission": "allowAll"}),
                },
            )
        )
        queues[name + suffixes["q"]] = queue
    for queue in queues.values():
        if draw(st.booleans()):
            target = draw(st.sampled_from(sorted(queues)))
            queue["deadLetterQueue"] = {"queue": target, "maxReceiveCount": draw(st.integers(1, 1000))}
    topics = {
        name + suffixes["t"]: {"tags": draw(_TAGS), "attributes": {"DisplayName": draw(_WORDS)}}
        for name in draw(st.lists(_NAMES, unique=True, max_size=3))
    }
    return {"queues": queues, "topics": topics, "subscriptions": draw(_subscriptions(queues, topics))}


@st.composite
def _subscriptions(draw: st.DrawFn, queues: Mapping[str, Any], topics: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = [
        (topic, queue) for topic in topics for queue in queues if topic.endswith(".fifo") or not queue.endswith(".fifo")
    ]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    found = []
    for topic, queue in chosen:
        more = st.fixed_dictionaries(
            {}, optional={"allow": st.booleans(), "rawDelivery": st.booleans(), "filterPolicy": _FILTER}
        )
        found.append({"topic": topic, "protocol": "sqs", "endpoint": queue, **draw(more)})
    return found


@settings(
    max_examples=examples(100), database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)
@given(document=files())
async def test_random_files_are_applied_and_exported(service: Service, document: dict[str, Any]) -> None:
    first, second = service.account(), service.account()
    for text in (json.dumps(document), yaml_text(document)):
        await apply(first, text)
        assert await differences(first, text, prune=True) == []
    found = await exported(first)
    assert await differences(first, yaml_text(found), prune=True) == []
    await apply(second, yaml_text(found))
    assert await exported(second) == found
