"""`cns queue`, `cns topic`, `cns publish`: over the REST API, by environment and by profile."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.harness import commands
from lab.harness.processes import BIN
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.cli.command_runs import run

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cns(service: Service, tmp_path: Path) -> Run:
    """Runs a `cns` command with the first account's key in the environment."""
    environment = {
        **os.environ,
        **service.environment,
        "AWS_ENDPOINT_URL": service.url,
        "AWS_REGION": REGION,
        "XDG_CONFIG_HOME": str(tmp_path),
    }

    def run(*words: str, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        changed = {name: value for name, value in {**environment, **more}.items() if value}
        if not text:
            return commands.run(*words, environment=changed)
        return subprocess.run(
            [BIN / "cns", *words],
            input=text,
            env=changed,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_queue_by_commands(cns: Run, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    made = cns("queue", "create", name, "--set", "VisibilityTimeout=600")
    assert made.returncode == 0, made.stderr
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"].rpartition("/")[2] == name
    assert cns("queue", "list", name).stdout == f"{name}\n"
    ids = cns("queue", "send", name, "-", text="first\nsecond\n").stdout.split()
    assert len(ids) == 2
    assert cns("queue", "list", name, "--counts").stdout.splitlines()[1].split() == [name, "2", "0", "0"]
    counted = cns("queue", "statistics", name).stdout.splitlines()[1:]
    assert [line.split()[-1] for line in counted] == ["2", "0", "0"]
    by_hour = cns("queue", "statistics", name, "--by-hour")
    assert (by_hour.returncode, by_hour.stderr) == (1, f"cns: the engine of {name} keeps no statistics by hour\n")
    assert "first" in cns("queue", "peek", name).stdout
    received = json.loads(cns("queue", "receive", name, "--json").stdout)
    assert (received["body"], received["messageId"]) == ("first", ids[0])
    assert cns("queue", "receive", name, "-n", "5", "--ack").stdout == "second\n"
    assert cns("queue", "set", name, "VisibilityTimeout=900").returncode == 0
    shown = dict(line.split(maxsplit=1) for line in cns("queue", "show", name).stdout.splitlines())
    assert shown["VisibilityTimeout"] == "900"
    assert cns("queue", "purge", name).returncode == 0
    assert cns("queue", "delete", name).returncode == 0
    gone = cns("queue", "show", name)
    assert (gone.returncode, gone.stderr) == (1, "cns: QueueDoesNotExist: The specified queue does not exist.\n")


def test_a_topic_by_commands(cns: Run, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert cns("topic", "create", name).stdout.strip().endswith(f":{name}")
    assert cns("topic", "subscribe", name, "email", "reader@example.com").returncode == 0
    assert "reader@example.com" in cns("topic", "subscriptions", name).stdout
    assert len(cns("publish", name, "it rains", "--subject", "weather").stdout.strip()) == 36
    assert name in [json.loads(line)["topic"] for line in cns("topic", "list", "--json").stdout.splitlines()]
    assert cns("topic", "delete", name).returncode == 0
    assert cns("publish", name, "lost").returncode == 1


def test_a_message_of_a_topic_is_looked_at_without_its_envelope(cns: Run, new_name: Callable[[], str]) -> None:
    queue, topic = new_name(), new_name()
    arn = json.loads(cns("queue", "create", queue, "--json").stdout)["arn"]
    cns("topic", "create", topic)
    assert cns("topic", "subscribe", topic, "sqs", arn, "--allow").returncode == 0
    cns("publish", topic, "it rains")
    cns("queue", "send", queue, '{"message": "bare"}')
    wait_until(lambda: len(cns("queue", "peek", queue).stdout.split("visible")) == 3, lambda: "two messages")
    title, *lines = cns("queue", "peek", queue, "--unwrap").stdout.splitlines()
    assert title.split() == ["sent", "state", "receives", "message", "id", "body"]
    bodies = {line[title.index("body") :] for line in lines}
    assert bodies == {"it rains", '{"message": "bare"}'}
    assert {
        json.loads(line)["body"] for line in cns("queue", "peek", queue, "--unwrap", "--json").stdout.splitlines()
    } == bodies


def test_a_shell_completes_names(cns: Run, new_name: Callable[[], str]) -> None:
    queue, topic = new_name(), new_name()
    cns("queue", "create", queue)
    cns("topic", "create", topic)

    def completed(words: str, **more: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        done = cns(_CNS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    # A machine that is too busy for the time that a person waits completes nothing.
    wait_until(lambda: completed(f"cns queue show {queue[:-1]}") == [queue])
    wait_until(lambda: queue in completed("cns dead-letters show "))
    wait_until(lambda: topic in completed("cns publish "))
    wait_until(lambda: completed(f"cns subscriptions list {topic}") == [topic])
    for wrong in (
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
        {"AWS_SECRET_ACCESS_KEY": "wrong"},
        {"AWS_ENDPOINT_URL": ""},
    ):
        assert completed(f"cns queue show {queue}", **wrong) == []


@pytest.mark.extended
def test_dead_letters_by_commands(cns: Run, new_name: Callable[[], str]) -> None:
    dead, work = new_name(), new_name()
    arn = json.loads(cns("queue", "create", dead, "--json").stdout)["arn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    cns("queue", "create", work, "--set", f"RedrivePolicy={policy}", "--set", "VisibilityTimeout=0")
    sent = cns("queue", "send", work, "spent").stdout.strip()
    assert cns("queue", "receive", work).stdout == "spent\n"
    assert cns("queue", "receive", work).stdout == ""
    rows = {line.split()[0]: line.split()[1:] for line in cns("dead-letters", "list").stdout.splitlines()}
    visible, in_flight, age, source = rows[dead]
    assert (visible, in_flight, source, age.isdigit()) == ("1", "0", work, True)
    listed = {one["name"]: one for one in map(json.loads, cns("dead-letters", "list", "--json").stdout.splitlines())}
    assert (listed[dead]["queues"], listed[dead]["depth"]["visible"]) == ([work], 1)
    shown = json.loads(cns("dead-letters", "show", dead, "--json").stdout)
    assert (shown["messageId"], shown["cause"], shown["sourceArn"]) == (sent, "spent:receives", arn.replace(dead, work))
    assert cns("dead-letters", "show", dead).stdout.splitlines()[1].split()[:2] == [sent, "spent:receives"]
    assert cns("dead-letters", "redrive", dead).stdout == "completed: 1 moved\n"
    assert cns("dead-letters", "redrives", dead).stdout.splitlines()[1].split()[:2] == ["completed", "1"]
    none = cns("dead-letters", "cancel", dead)
    assert (none.returncode, none.stderr) == (1, f"cns: no redrive from {dead} is running\n")


def test_a_profile(cns: Run, service: Service, tmp_path: Path, new_name: Callable[[], str]) -> None:
    keys = service.environment
    (tmp_path / "cns").mkdir()
    (tmp_path / "cns" / "config.toml").write_text(
        f'[profiles.mine]\nurl = "{service.url}"\nregion = "{REGION}"\n'
        f'key_id = "{keys["AWS_ACCESS_KEY_ID"]}"\nsecret = "{keys["AWS_SECRET_ACCESS_KEY"]}"\n'
    )
    bare = dict.fromkeys(("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"), "")
    assert cns("queue", "list", "--profile", "mine", **bare).returncode == 0
    unknown = cns("queue", "list", "--profile", "other", **bare)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "has no profile other" in unknown.stderr
    assert cns("queue", "list", **bare).stderr == (
        "cns: no service is named: use --url, AWS_ENDPOINT_URL or a profile\n"
    )
    (tmp_path / "cns" / "config.toml").write_text("x = " + "[" * 9_999 + "]" * 9_999)
    junk = cns("queue", "list", **bare)
    assert (junk.returncode, junk.stderr.count("\n"), "cannot be read" in junk.stderr) == (2, 1, True)


def test_a_profile_is_written(cns: Run, tmp_path: Path) -> None:
    file = tmp_path / "cns" / "config.toml"
    bare = dict.fromkeys(("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"), "")
    assert cns("configure").returncode == 0
    assert (file.stat().st_mode & 0o777, cns("queue", "list", **bare).returncode) == (0o600, 0)
    file.write_text(f'# mine\n{file.read_text()}[profiles."a.b"]\nurl = "http://other"  # kept\n')
    made = cns("configure", "a c", AWS_SECRET_ACCESS_KEY='"\\')
    again = cns("configure", "--url", "http://again:1")
    assert (made.returncode, again.returncode) == (0, 0), made.stderr + again.stderr
    text = file.read_text()
    assert text.startswith("# mine\n") and text.count("[profiles.default]") == 1 and "# kept" in text
    found = tomllib.loads(text)["profiles"]
    assert (found["default"]["url"], found["a c"]["secret"]) == ("http://again:1", '"\\')
    for before, words, said in (
        (text, ("configure", "--url", "again"), "is not the URL of a service"),
        ('profiles.default.url = "x"\n', ("configure",), "change it by hand"),
        ("x = [", ("configure",), "cannot be changed"),
    ):
        file.write_text(before)
        refused = cns(*words)
        assert (refused.returncode, refused.stderr.count("\n"), file.read_text()) == (2, 1, before)
        assert said in refused.stderr
    missing = cns("configure", **bare)
    assert (missing.returncode, missing.stderr) == (
        2,
        "cns: no access key: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\n",
    )


def test_attributes_of_topics_and_subscriptions(cns: Run, new_name: Callable[[], str]) -> None:
    name = new_name()
    queue = cns("queue", "create", name, "--json")
    cns("topic", "create", name)
    subscribed = cns("topic", "subscribe", name, "sqs", json.loads(queue.stdout)["arn"]).stdout.strip()
    for noun, what, attribute, value in (
        ("topic", name, "DisplayName", "News"),
        ("subscriptions", subscribed, "RawMessageDelivery", "true"),
    ):
        changed = cns(noun, "set", what, f"{attribute}={value}")
        assert (changed.returncode, changed.stdout) == (0, ""), changed.stderr
        rows = dict(
            line.split(maxsplit=1) for line in cns(noun, "show", what).stdout.splitlines() if " " in line.strip()
        )
        assert rows[attribute] == value
        assert json.loads(cns(noun, "show", what, "--json").stdout)["attributes"][attribute] == value
        wrong = cns(noun, "set", what, "Colour=red")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
        assert cns(noun, "set", what, "Colour").returncode == 2
    assert cns("topic", "show", new_name()).returncode == 1


def test_refusals_are_one_line(cns: Run) -> None:
    wrong = cns("queue", "list", AWS_SECRET_ACCESS_KEY="wrong")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    away = cns("queue", "list", "--url", "http://127.0.0.1:1")
    assert (away.returncode, away.stderr.count("\n")) == (69, 1)
    assert cns("queue", "create", "q", "--set", "colour").returncode == 2


@pytest.mark.extended
def test_redrive(cns: Run, sqs: Any, new_name: Callable[[], str]) -> None:
    dead, work = new_name(), new_name()
    assert cns("queue", "create", dead).returncode == 0
    arn = json.loads(cns("queue", "show", dead, "--json").stdout)["arn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    assert (
        cns("queue", "create", work, "--set", f"RedrivePolicy={policy}", "--set", "VisibilityTimeout=0").returncode == 0
    )
    assert cns("queue", "send", work, "again").returncode == 0
    for _ in range(2):
        cns("queue", "receive", work)
    assert "again" in cns("queue", "peek", dead).stdout
    done = cns("queue", "redrive", dead, "--json")
    assert json.loads(done.stdout)["status"] == "COMPLETED", done.stderr
    assert cns("queue", "receive", work).stdout == "again\n"
    refused = cns("queue", "redrive", new_name())
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


def test_subscriptions(cns: Run, new_name: Callable[[], str]) -> None:
    topic, queue = new_name(), new_name()
    for words in (("topic", "create", topic), ("queue", "create", queue)):
        assert cns(*words).returncode == 0
    endpoint = json.loads(cns("queue", "show", queue, "--json").stdout)["arn"]
    policy = 'FilterPolicy={"kind": ["order"]}'
    arn = cns("topic", "subscribe", topic, "sqs", endpoint, "--set", policy).stdout.strip()
    listed = [json.loads(line) for line in cns("subscriptions", "list", topic, "--json").stdout.splitlines()]
    assert [(one["arn"], one["endpoint"]) for one in listed] == [(arn, endpoint)]
    passes = cns("subscriptions", "test-filter", "--subscription", arn, "--attribute", "kind=order")
    assert (passes.returncode, passes.stdout) == (0, "passes\n"), passes.stderr
    refused = cns("subscriptions", "confirm", topic, "no-token")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert cns("subscriptions", "delete", arn).returncode == 0
    assert cns("subscriptions", "list", topic).stdout == ""
    assert cns("subscriptions", "delete", "news").returncode == 2


def test_a_queue_that_does_not_allow_the_topic_is_named_and_allowed(cns: Run, new_name: Callable[[], str]) -> None:
    topic, queue = new_name(), new_name()
    for words in (("topic", "create", topic), ("queue", "create", queue)):
        assert cns(*words).returncode == 0
    endpoint = json.loads(cns("queue", "show", queue, "--json").stdout)["arn"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:GetQueueUrl", "Resource": "*"}
    policy = json.dumps({"Statement": statement})
    cns("queue", "set", queue, f"Policy={policy}")
    subscribe = ("topic", "subscribe", topic, "sqs", endpoint, "--set", "RawMessageDelivery=true")
    warned = cns(*subscribe)
    assert warned.returncode == 0
    assert warned.stderr.startswith("cns: nothing will arrive: queue policy does not allow topic ")
    assert "--allow" in warned.stderr
    for _ in range(2):
        allowed = cns(*subscribe, "--allow")
        assert (allowed.returncode, allowed.stderr, allowed.stdout) == (0, "", warned.stdout)
    kept = json.loads(json.loads(cns("queue", "show", queue, "--json").stdout)["attributes"]["Policy"])
    assert [one["Action"] for one in kept["Statement"]] == ["sqs:GetQueueUrl", "sqs:SendMessage"]
    sent = cns("publish", topic, "-", "--attribute", "kind=new", "--attribute", "n:Number=7", text="one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    received = json.loads(cns("queue", "receive", queue, "--wait", "20", "--json").stdout)
    assert received["body"] == "one\ntwo\n"
    values = {name: (one["dataType"], one["stringValue"]) for name, one in received["attributes"].items()}
    assert values == {"kind": ("String", "new"), "n": ("Number", "7")}
    elsewhere = endpoint.replace(endpoint.split(":")[4], "999999999999")
    assert cns("topic", "subscribe", topic, "sqs", elsewhere, "--allow").returncode == 2
    assert cns("topic", "subscribe", topic, "email", "a@example.com", "--allow").returncode == 2


def test_a_web_endpoint_without_a_dead_letter_queue_is_named(cns: Run, new_name: Callable[[], str]) -> None:
    topic = new_name()
    cns("topic", "create", topic)
    subscribe = ("topic", "subscribe", topic, "http", "http://127.0.0.1:9/")
    warned = cns(*subscribe)
    assert warned.returncode == 0
    assert warned.stderr.startswith("cns: the subscription has no dead-letter queue, so that a message ")
    dead = json.loads(cns("queue", "create", new_name(), "--json").stdout)["arn"]
    safe = cns(*subscribe[:-1], "http://127.0.0.1:9/safe", "--set", f'RedrivePolicy={{"deadLetterTargetArn":"{dead}"}}')
    assert (safe.returncode, safe.stderr) == (0, "")


def test_message_attributes_and_groups_are_sent(cns: Run, new_name: Callable[[], str]) -> None:
    name = f"{new_name()}.fifo"
    cns("queue", "create", name)
    word = ("--group", "g", "--deduplication", "d", "--attribute", "kind=new", "--attribute", "raw:Binary=AP8=")
    assert cns("queue", "send", name, "m", *word).returncode == 0
    received = json.loads(cns("queue", "receive", name, "--json").stdout)
    assert received["attributes"]["kind"] == {"dataType": "String", "stringValue": "new", "binaryValue": None}
    assert received["attributes"]["raw"]["binaryValue"] == "AP8="
    assert received["systemAttributes"]["MessageGroupId"] == "g"
    wrong = cns("queue", "send", name, "m", "--attribute", "kind")
    assert (wrong.returncode, wrong.stderr) == (2, "cns: 'kind' is not NAME=VALUE or NAME:TYPE=VALUE\n")


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
@pytest.mark.parametrize(
    "what", [("queue", "purge"), ("queue", "delete"), ("topic", "delete"), ("subscriptions", "delete")]
)
def test_a_person_is_asked_before_something_is_lost(
    service: Service, new_name: Callable[[], str], what: tuple[str, str], answer: str, code: int
) -> None:
    noun, verb = what
    name = new_name()
    if noun == "subscriptions":
        assert run(service, "topic", "create", name).returncode == 0
        queue = json.loads(run(service, "queue", "create", name, "--json").stdout)["arn"]
        name = run(service, "topic", "subscribe", name, "sqs", queue).stdout.strip()
    else:
        assert run(service, noun, "create", name).returncode == 0
    person, terminal = os.openpty()
    os.write(person, f"{answer}\n".encode())
    environment = {**os.environ, **service.environment, "AWS_ENDPOINT_URL": service.url, "AWS_REGION": REGION}
    command = [str(BIN / "cns"), noun, verb, name]
    done = subprocess.run(command, stdin=terminal, env=environment, capture_output=True, check=False)
    os.close(terminal)
    os.close(person)
    assert (done.returncode, b"[y/N]" in done.stdout + done.stderr) == (code, True), done
    is_there = name in run(service, noun, "list").stdout
    assert is_there == (answer == "n" or verb == "purge")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--policy", '{"kind": ["order"]}', "--attribute", "kind=order"), 0, "passes"),
        (("--policy", '{"kind": ["order"]}', "--attribute", "kind=bill"), 1, "does not pass"),
        (("--policy", '{"n": [{"numeric": [">", 1]}]}', "--attribute", "n:Number=2"), 0, "passes"),
        (("--policy", '{"a": {"b": [1]}}', "--scope", "MessageBody", "--message", '{"a": {"b": 1}}'), 0, "passes"),
        (("--policy", '{"a": [1]}', "--scope", "MessageBody", "--message", "text"), 1, "not a JSON object"),
        (("--policy", "{"), 2, ""),
        ((), 2, ""),
    ],
)
def test_a_filter_is_tested_without_a_service(words: tuple[str, ...], code: int, said: str) -> None:
    done = commands.run("subscriptions", "test-filter", *words)
    assert (done.returncode, said in done.stdout) == (code, True), done.stderr
    assert done.stderr.count("\n") == (code == 2)


@pytest.mark.parametrize("url", ["http://[::1", "service:6059", "http://127.0.0.1:99999", "http://.."])
def test_what_is_no_url_is_wrong_usage(cns: Run, url: str) -> None:
    refused = cns("queue", "list", "--url", url)
    assert refused.returncode == 2
    assert refused.stderr == f"cns: {url!r} is not the URL of a service, such as http://127.0.0.1:6059\n"


@pytest.mark.parametrize("token", ["\\u00e9", "a\\nb"])
def test_a_token_that_is_none_is_not_printed(cns: Run, service: Service, tmp_path: Path, token: str) -> None:
    _write_profile(tmp_path, f'url = "{service.url}"\ntoken = "{token}"')
    refused = cns("queue", "list", "--profile", "default")
    assert refused.returncode == 2
    assert refused.stderr == "cns: the token of the profile has invalid characters\n"


def test_an_operator_has_no_queues(cns: Run, service: Service, tmp_path: Path) -> None:
    token = service.cns("operator", "token").stdout.strip()
    _write_profile(tmp_path, f'url = "{service.url}"\ntoken = "{token}"')
    refused = cns("queue", "list", "--profile", "default")
    assert refused.returncode == 2
    assert refused.stderr == "cns: an operator token cannot use queues and topics: use an access key\n"


def test_an_empty_message_is_refused_as_such(cns: Run, new_name: Callable[[], str]) -> None:
    name = new_name()
    cns("topic", "create", name)
    assert "Empty message" in cns("publish", name, "").stderr


def _write_profile(directory: Path, text: str) -> None:
    (directory / "cns").mkdir()
    (directory / "cns" / "config.toml").write_text(f"[profiles.default]\n{text}\n")
