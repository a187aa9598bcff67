"""The portal: a link opens one subscription and nothing else; retry, pause and the webhook secret, over the service."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from cns.client import ApiError, Client, Credentials
from lab.harness.clustered import CLUSTER
from lab.harness.endpoints import Endpoint
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.cli.command_runs import run
from tests.acceptance.pages.person import FORM_TOKEN, Person
from tests.acceptance.pages.test_why_not_arrived import GIVES_UP
from tests.acceptance.sns.test_fifo import fifo_queue
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, signature_is_good

SECRET = re.compile("whsec_[A-Za-z0-9+/=]+")
ACTS = ("pause", "resume", "retry", "secret", "secret/rotate", "leave")


@dataclass(frozen=True)
class Visitor:
    """The owner of an endpoint, with a browser and a link."""

    http: httpx.Client

    def page(self) -> str:
        return html.unescape(self.http.get("/portal/").text)

    def may_retry(self, message: str) -> bool:
        return f"Retry {message}" in self.page()

    def post(self, act: str, **fields: str) -> httpx.Response:
        found = FORM_TOKEN.search(self.http.get("/portal/").text)
        assert found is not None
        return self.http.post(f"/portal/{act}", data={"form_token": html.unescape(found[1]), **fields})

    def secret(self, act: str, **fields: str) -> str:
        found = SECRET.search(html.unescape(self.post(act, **fields).text))
        assert found is not None
        return found[0]


@pytest.fixture
def holder(service: Service, topic: Topic) -> Iterator[Client]:
    """The REST client of the account that has the subscriptions."""
    keys = service.environment
    credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    with Client(service.url, topic.arn.split(":")[4], credentials, region=REGION) as client:
        yield client


@pytest.fixture
def visit(holder: Client, open_browser: Callable[[], Person]) -> Callable[[str], Visitor]:
    """Opens the portal of a subscription in a new browser, by a link made for it."""

    def open_portal(arn: str) -> Visitor:
        browser = open_browser().http
        opened = browser.get(holder.create_portal_link(arn).url)
        assert opened.status_code == 200, opened.text
        return Visitor(browser)

    return open_portal


def test_a_link_opens_one_subscription_and_nothing_else(
    service: Service, holder: Client, topic: Topic, endpoint: Endpoint, open_browser: Callable[[], Person]
) -> None:
    arn = topic.subscribe("http", endpoint.url)
    other = topic.subscribe("http", f"{endpoint.url}-other")
    link = holder.create_portal_link(arn).url
    token = httpx.URL(link).params["link"]
    browser = open_browser().http
    first = browser.get(link, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/portal/")
    assert first.headers["referrer-policy"] == "no-referrer" and "no-store" in first.headers["cache-control"]
    cookie = first.headers["set-cookie"].lower()
    assert "path=/portal;" in cookie and "httponly" in cookie and "samesite=lax" in cookie
    page = browser.get("/portal/").text
    assert endpoint.url in html.unescape(page) and "confirmed" in page
    assert other not in page and token not in page

    browser.cookies.set("cns_session", token)
    for path in ("/ui/queues", "/ui/topics", "/ui/service"):
        assert browser.get(path).url.path == "/ui/sign-in"
    bearer = {"authorization": f"Bearer {token}"}
    for path in ("/api/v1/caller", f"/api/v1/accounts/{holder.account}/topics"):
        assert httpx.get(service.url + path, headers=bearer).status_code == 401
        assert httpx.get(service.url + path, params={"auth": token}).status_code == 401
    assert browser.get("/portal/subscriptions").status_code == 404
    forged = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    nobody = open_browser().http
    for text in ("", forged, "portal.x.y", "é", "operator.1.x", "portal." + "A" * 5000):
        assert nobody.get("/portal/open", params={"link": text}).status_code == 403
    assert nobody.get("/portal/").status_code == 403


def test_a_link_ends_by_the_clock_and_when_it_is_revoked(
    service: Service, holder: Client, topic: Topic, endpoint: Endpoint, open_browser: Callable[[], Person]
) -> None:
    arn = topic.subscribe("http", endpoint.url)
    short, revoked, lasting = (holder.create_portal_link(arn, life) for life in (60, 3_600, None))
    browsers = [open_browser().http for _ in range(3)]
    for browser, link in zip(browsers, (short, revoked, lasting), strict=True):
        assert browser.get(link.url).status_code == 200
    assert [one.id for one in holder.portal_links(arn)] == [short.id, revoked.id, lasting.id]
    holder.revoke_portal_link(arn, revoked.id)
    service.advance(61)
    assert [browser.get("/portal/").status_code for browser in browsers] == [403, 403, 200]
    assert [one.id for one in holder.portal_links(arn)] == [lasting.id]
    assert open_browser().http.get(short.url).status_code == 403
    with pytest.raises(ApiError, match="404"):
        holder.revoke_portal_link(arn, revoked.id)
    holder.unsubscribe(arn)
    assert browsers[2].get("/portal/").status_code == 403


def test_a_link_lives_no_longer_than_the_token_that_made_it(
    service: Service, holder: Client, topic: Topic, endpoint: Endpoint
) -> None:
    arn = topic.subscribe("http", endpoint.url)
    keys = (service.environment["AWS_ACCESS_KEY_ID"], service.environment["AWS_SECRET_ACCESS_KEY"])
    wanted = {"lifeSeconds": 60, "levels": ["ManageTopic"]}
    token = httpx.post(f"{service.url}/api/v1/tokens", json=wanted, auth=keys).json()
    path = f"{service.url}/api/v1/accounts/{holder.account}/topics/{arn.split(':')[-2]}/subscriptions"
    made = httpx.post(
        f"{path}/{arn.split(':')[-1]}/portal-links",
        params={"region": REGION},
        json={"lifeSeconds": 366 * 86_400},
        headers={"authorization": f"Bearer {token['token']}"},
    )
    assert made.status_code == 201, made.text
    assert made.json()["expiresAt"] == token["expiresAt"]
    assert httpx.get(made.json()["url"]).status_code == 303
    service.advance(61)
    assert httpx.get(made.json()["url"]).status_code == 403


def test_acts_need_the_form_of_the_visit(
    visit: Callable[[str], Visitor], topic: Topic, endpoint: Endpoint, open_browser: Callable[[], Person]
) -> None:
    visitor, other = visit(topic.subscribe("http", endpoint.url)), visit(topic.subscribe("http", endpoint.url + "-b"))
    foreign = FORM_TOKEN.search(other.http.get("/portal/").text)
    assert foreign is not None
    for act in ACTS:
        for token in ("", "guess", html.unescape(foreign[1])):
            assert visitor.http.post(f"/portal/{act}", data={"form_token": token}).status_code == 403, act
        assert open_browser().http.post(f"/portal/{act}", data={"form_token": "x"}).status_code == 403, act
        elsewhere = {"origin": "http://evil.example"}
        own = FORM_TOKEN.search(visitor.http.get("/portal/").text)
        assert own is not None
        posted = visitor.http.post(f"/portal/{act}", data={"form_token": html.unescape(own[1])}, headers=elsewhere)
        assert posted.status_code == 403, act
    assert "paused" not in visitor.page()
    assert visitor.post("leave").status_code == 200
    assert visitor.http.get("/portal/").status_code == 403


def test_a_failed_delivery_is_retried_from_the_dead_letter_queue(
    visit: Callable[[str], Visitor], sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    queue = queue_for(sqs, topic.arn)
    letters = topic.dead_letters_to(arn_of(sqs, queue))
    visitor = visit(topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, **letters))
    endpoint.behave(status=500)
    message = topic.publish("once more", Subject="s")
    wait_until(lambda: visitor.may_retry(message), visitor.page)
    if not CLUSTER:  # in a cluster the workers' events are on other machines
        wait_until(lambda: ">dead-lettered<" in visitor.page(), visitor.page)
    forge(sqs, queue, endpoint.notifications()[0]["body"])
    endpoint.behave(status=200)
    assert "is sent again" in visitor.post("retry", message=message).text
    wait_until(lambda: len(endpoint.notifications()) == 2)
    again = json.loads(endpoint.notifications()[-1]["body"])
    assert (again["MessageId"], again["Message"], again["Subject"]) == (message, "once more", "s")
    assert again["Replayed"] == "true" and signature_is_good(again)
    if not CLUSTER:
        wait_until(lambda: not visitor.may_retry(message), visitor.page)
        assert visitor.post("retry", message=message).status_code == 409


def test_a_letter_whose_attributes_nobody_signed_needs_the_archive(
    visit: Callable[[str], Visitor], sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    queue = queue_for(sqs, topic.arn)
    letters = topic.dead_letters_to(arn_of(sqs, queue))
    visitor = visit(topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, **letters))
    endpoint.behave(status=500)
    lost = topic.publish("lost", MessageAttributes=ATTRIBUTE)
    wait_until(lambda: count_of(sqs, queue) == 1)
    if not CLUSTER:  # in a cluster the workers' events are on other machines
        wait_until(lambda: ">dead-lettered<" in visitor.page(), visitor.page)
    assert not visitor.may_retry(lost), "nothing whole is kept"
    assert visitor.post("retry", message=lost).status_code == 410
    topic.set("ArchivePolicy", json.dumps({"MessageRetentionPeriod": "1"}))
    kept = topic.publish("kept", MessageAttributes=ATTRIBUTE)
    wait_until(lambda: visitor.may_retry(kept), visitor.page)
    endpoint.behave(status=200)
    assert "is sent again" in visitor.post("retry", message=kept).text
    wait_until(lambda: len(endpoint.notifications()) == 3)
    again = json.loads(endpoint.notifications()[-1]["body"])
    assert (again["MessageId"], again["Message"]) == (kept, "kept")
    assert again["MessageAttributes"] == {"kind": {"Type": "String", "Value": "new"}}


def count_of(sqs: Any, queue: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])["Attributes"][name])


def test_a_fifo_message_is_retried_in_its_group_and_from_the_archive_only(
    visit: Callable[[str], Visitor], sns: Any, sqs: Any
) -> None:
    arn = sns.create_topic(Name=f"t-{uuid.uuid4().hex[:12]}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    topic, closed = Topic(sns, arn), fifo_queue(sqs, open_to="arn:aws:sns:*:*:none")
    dead = fifo_queue(sqs)
    visitor = visit(topic.subscribe("sqs", arn_of(sqs, closed), **topic.dead_letters_to(arn_of(sqs, dead))))
    topic.set("ArchivePolicy", json.dumps({"MessageRetentionPeriod": "1"}))
    message = topic.publish("text", MessageGroupId="g", MessageDeduplicationId="d")
    wait_until(lambda: count_of(sqs, dead) == 1)
    wait_until(lambda: visitor.may_retry(message), visitor.page)
    letter = sqs.receive_message(QueueUrl=dead, VisibilityTimeout=0)["Messages"][0]["Body"]
    invented = {**json.loads(letter), "MessageId": str(uuid.uuid4()), "Message": "never published"}
    sqs.send_message(
        QueueUrl=dead, MessageBody=json.dumps(invented), MessageGroupId="other", MessageDeduplicationId="e"
    )
    policy = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["Policy"])["Attributes"]
    sqs.set_queue_attributes(QueueUrl=closed, Attributes=policy)
    refused = visitor.post("retry", message=invented["MessageId"])
    assert refused.status_code == 410 and "FIFO" in refused.text
    assert "is sent again" in visitor.post("retry", message=message).text
    (got,) = receive_all(sqs, closed, 1)
    assert json.loads(got["Body"])["Message"] == "text"
    assert got["Attributes"]["MessageGroupId"] == "g"
    topic.set("ArchivePolicy", "{}")
    sns.delete_topic(TopicArn=arn)


@pytest.mark.skipif(CLUSTER, reason="the events that tell of it are on the workers' machines")
def test_a_retry_is_not_offered_where_nothing_is_kept(
    visit: Callable[[str], Visitor], topic: Topic, endpoint: Endpoint
) -> None:
    visitor = visit(topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP))
    endpoint.behave(status=500)
    message = topic.publish("lost")
    wait_until(lambda: "given up" in visitor.page(), visitor.page)
    assert message in visitor.page() and not visitor.may_retry(message)


def test_a_text_that_the_service_did_not_sign_is_not_sent(
    visit: Callable[[str], Visitor], sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    queue = queue_for(sqs, topic.arn)
    letters = topic.dead_letters_to(arn_of(sqs, queue))
    visitor = visit(topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, **letters))
    endpoint.behave(status=500)
    message = topic.publish("genuine")
    wait_until(lambda: visitor.may_retry(message), visitor.page)
    sqs.purge_queue(QueueUrl=queue)
    forge(sqs, queue, endpoint.notifications()[0]["body"])
    refused = visitor.post("retry", message=message)
    assert refused.status_code == 410 and "kept nowhere" in refused.text


def test_what_the_filter_policy_keeps_out_is_not_sent(
    visit: Callable[[str], Visitor], sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    """A sender with rights on the dead-letter queue puts another subscription into a genuine letter."""
    queue = queue_for(sqs, topic.arn)
    letters = topic.dead_letters_to(arn_of(sqs, queue))
    first = topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, **letters)
    other = Endpoint(endpoint.receiver)
    picky = topic.subscribe("http", other.url, FilterPolicy='{"kind": ["new"]}', **letters)
    endpoint.behave(status=500)
    message = topic.publish("not for it")
    wait_until(lambda: count_of(sqs, queue) == 1)
    letter = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"][0]["Body"]
    sqs.send_message(QueueUrl=queue, MessageBody=letter.replace(first, picky))
    refused = visit(picky).post("retry", message=message)
    assert refused.status_code == 409 and "filter policy" in refused.text
    assert other.notifications() == []


ATTRIBUTE = {"kind": {"DataType": "String", "StringValue": "new"}}


def forge(sqs: Any, queue: str, genuine: str) -> None:
    """Put a letter like a genuine one, but for its text, as anyone with rights to send to the queue can."""
    sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({**json.loads(genuine), "Message": "forged"}))


@pytest.mark.skipif(CLUSTER, reason="the events that tell when it was published are on the workers' machines")
def test_a_message_of_the_archive_is_retried(visit: Callable[[str], Visitor], topic: Topic, endpoint: Endpoint) -> None:
    """Without a dead-letter queue, and raw: the archive has the message as it was published."""
    topic.set("ArchivePolicy", json.dumps({"MessageRetentionPeriod": "1"}))
    visitor = visit(topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, RawMessageDelivery="true"))
    endpoint.behave(status=500)
    message = topic.publish("archived")
    wait_until(lambda: visitor.may_retry(message), visitor.page)
    endpoint.behave(status=200)
    assert "is sent again" in visitor.post("retry", message=message).text
    wait_until(lambda: len(endpoint.notifications()) == 2)
    assert endpoint.notifications()[-1]["body"] == "archived"


def test_a_pause_holds_messages_and_a_resumption_sends_them(
    visit: Callable[[str], Visitor], topic: Topic, endpoint: Endpoint, sns: Any
) -> None:
    arn = topic.subscribe("http", endpoint.url)
    other = Endpoint(endpoint.receiver)
    topic.subscribe("http", other.url)
    visitor = visit(arn)
    assert "are paused" in visitor.post("pause").text
    assert sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]["DeliveryPaused"] == "true"
    texts = [f"m{n}" for n in range(5)]
    for text in texts:
        topic.publish(text)
    wait_until(lambda: len(other.notifications()) == len(texts))
    assert endpoint.notifications() == []
    assert "are resumed" in visitor.post("resume").text
    wait_until(lambda: len(endpoint.notifications()) == len(texts))
    assert {json.loads(one["body"])["Message"] for one in endpoint.notifications()} == set(texts)
    assert "DeliveryPaused" not in sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]


def test_the_secret_signs_deliveries_and_the_former_one_for_a_day(
    visit: Callable[[str], Visitor], topic: Topic, endpoint: Endpoint, service: Service
) -> None:
    visitor = visit(topic.subscribe("http", endpoint.url))

    def delivered(text: str) -> dict[str, Any]:
        topic.publish(text)
        wait_until(lambda: texts_at(endpoint).get(text))
        return texts_at(endpoint)[text]

    assert "webhook-signature" not in delivered("unsigned")["headers"]
    first = visitor.secret("secret/rotate", number="0")
    assert visitor.secret("secret/rotate", number="0") == first, "the form was posted again"
    assert visitor.post("secret/rotate", number="1").status_code == 400, "the box is not ticked"
    second = visitor.secret("secret/rotate", number="1", sure="yes")
    assert visitor.secret("secret") == second != first
    assert signed_by(delivered("signed by both"), first, second) == [True, True]
    service.advance(86_401)
    assert signed_by(delivered("signed by the new one"), first, second) == [False, True]


def texts_at(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """The deliveries by their text: leases end with the clock, so one may come twice."""
    return {json.loads(one["body"])["Message"]: one for one in endpoint.notifications()}


def signed_by(delivery: dict[str, Any], *secrets: str) -> list[bool]:
    """Whether each secret signed a delivery, as a receiver by Standard Webhooks verifies it."""
    headers = delivery["headers"]
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{delivery['body']}".encode()
    given = headers["webhook-signature"].split(" ")
    macs = [hmac.digest(base64.b64decode(one.removeprefix("whsec_")), content, hashlib.sha256) for one in secrets]
    return [f"v1,{base64.b64encode(mac).decode()}" in given for mac in macs]


def test_account_holders_make_pause_and_revoke_on_the_page_and_the_command_line(
    service: Service,
    person: Person,
    holder: Client,
    topic: Topic,
    endpoint: Endpoint,
    open_browser: Callable[[], Person],
) -> None:
    arn = topic.subscribe("http", endpoint.url)
    path = f"/ui/topics/{arn.split(':')[-2]}/subscriptions/{arn.split(':')[-1]}"
    made = html.unescape(person.post(f"{path}/portal-links", days="2").text)
    url = re.findall(r"http\S+/portal/open\?link=[\w.%-]+", made)[0]
    assert open_browser().http.get(url).status_code == 200
    (by_page,) = holder.portal_links(arn)
    assert by_page.expires_at - by_page.created_at == 2 * 86_400_000, "it outlives the person's session"
    link = re.findall(r"portal-links/([0-9a-f]{32})/revoke", made)[0]
    assert "is revoked" in person.post(f"{path}/portal-links/{link}/revoke", sure="yes").text
    assert open_browser().http.get(url).status_code == 403
    assert "are paused" in person.post(f"{path}/pause", paused="true").text
    assert person.post(f"{path}/portal-links", days="367").status_code == 400

    def cns(*words: str) -> str:
        done = run(service, "subscriptions", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    made_by_command = cns("portal-link", arn, "--life", "2h").strip()
    visitor = Visitor(open_browser().http)
    assert visitor.http.get(made_by_command).status_code == 200
    cns("resume", arn)
    assert "Pause deliveries" in visitor.page()
    assert json.loads(cns("pause", arn, "--json"))["paused"] is True
    assert "Resume deliveries" in visitor.page()
    (listed,) = [json.loads(line) for line in cns("portal-link", arn, "--list", "--json").splitlines()]
    cns("portal-link", arn, "--revoke", listed["id"])
    assert visitor.http.get("/portal/").status_code == 403
