"""The pages by plain HTTP: which callers may do what, forged forms, use without scripts."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from cns_pytest.http import fetch
from lab.harness.processes import keys_in
from lab.harness.service import REGION, Service
from tests.acceptance.pages.person import Clicks, Person
from tests.acceptance.topics import Topic


def test_nothing_is_shown_before_the_sign_in(open_browser: Callable[[], Person]) -> None:
    someone = open_browser()
    for path in ("/ui/", "/ADMIN", "/ui/queues", "/ui/queues/q", "/ui/topics", "/ui/accounts", "/ui/service"):
        assert someone.http.get(path).url.path == "/ui/sign-in"
    assert someone.http.post("/ui/queues", data={"name": "q"}).url.path == "/ui/sign-in"
    refused = someone.sign_in(key_id="AKIANOBODY", secret="wrong")
    assert refused.status_code == 401
    assert "does not exist, or its secret is wrong" in refused.text
    someone.http.cookies.set("cns_session", "e30.AAAA", path="/ui")
    assert someone.http.get("/ui/queues").url.path == "/ui/sign-in"


def test_a_queue_through_the_pages(person: Person, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert "Created." in person.post("/ui/queues", name=name, visibility="7").text
    queue = f"/ui/queues/{name}"
    assert "The message is sent." in person.post(f"{queue}/messages", body="<b>bold</b>", delay="0").text
    shown = person.http.get(queue).text
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>bold" not in shown
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "<b>bold</b>"
    assert person.http.get("/ui/queues", params={"prefix": name}).text.count(f'href="{queue}"') == 1
    assert "Saved." in person.post(f"{queue}/attributes", attribute="VisibilityTimeout", value="9").text
    assert person.post(f"{queue}/purge").status_code == 400  # without the confirming check box
    assert "All messages are deleted." in person.post(f"{queue}/purge", sure="yes").text
    assert "Deleted." in person.post(f"{queue}/delete", sure="yes").text
    gone = person.http.get(queue)
    assert gone.status_code == 404
    assert "The specified queue does not exist." in gone.text


def test_a_topic_through_the_pages(person: Person, sns: Any, queue: str, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    assert "Created." in person.post("/ui/topics", name=name).text
    topic = f"/ui/topics/{name}"
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    subscribed = person.post(f"{topic}/subscriptions", protocol="sqs", endpoint=arn).text
    assert arn in subscribed and "nothing will arrive: no policy: the queue does not allow the topic" in subscribed
    warned = person.post(f"{topic}/subscriptions", protocol="http", endpoint="http://127.0.0.1:9/").text
    assert "It has no dead-letter queue, so that a message whose attempts all fail is lost" in warned
    assert "not confirmed" in person.post(f"{topic}/subscriptions", protocol="email", endpoint="a@example.com").text
    assert "The message is published." in person.post(f"{topic}/messages", message="m", subject="s").text
    subscription = re.findall(rf'action="({topic}/subscriptions/[0-9a-f-]+/delete)"', person.http.get(topic).text)
    assert person.post(subscription[0]).status_code == 400  # without the confirming check box
    assert arn in person.http.get(topic).text
    assert "The subscription is deleted." in person.post(subscription[0], sure="yes").text
    assert "Deleted." in person.post(f"{topic}/delete", sure="yes").text


def test_lists_have_a_second_page(person: Person, sqs: Any, new_name: Callable[[], str]) -> None:
    prefix, listed = new_name(), 50
    names = [f"{prefix}-{n:02}" for n in range(listed + 2)]
    urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in names]
    first = Clicks(person, f"/ui/queues?prefix={prefix}")
    assert first.has(f"/ui/queues/{names[listed - 1]}") and not first.has(f"/ui/queues/{names[listed]}")
    first.click(next(link for link in first.links() if "after=" in link))
    assert [first.has(f"/ui/queues/{name}") for name in names] == [False] * listed + [True] * 2

    for n in range(listed + 2):
        sqs.send_message(QueueUrl=urls[0], MessageBody=f"message {n:02}.")
    second = Clicks(person, f"/ui/queues/{names[0]}")
    shown = [f"message {n:02}." in second.page() for n in range(listed + 2)]
    assert sum(shown) == listed
    second.click(next(link for link in second.links() if "after=" in link))
    rest = [f"message {n:02}." in second.page() for n in range(listed + 2)]
    assert [a != b for a, b in zip(shown, rest, strict=True)] == [True] * (listed + 2)


def test_refusals_are_pages(person: Person) -> None:
    refused = person.post("/ui/queues", name="bad name", visibility="x")
    assert refused.status_code == 400
    assert "alphanumeric" in refused.text
    assert person.http.get("/ui/nowhere").status_code == 404
    assert person.post("/ui/queues/none/messages", body="m", delay="soon").status_code == 400


def test_failures_have_the_navigation_of_the_session(person: Person, open_browser: Callable[[], Person]) -> None:
    for path, status in (("/ui/queues/none", 404), ("/ui/nowhere", 404), ("/ui/accounts", 403)):
        failed, unknown = person.http.get(path), open_browser().http.get("/ui/nowhere")
        assert failed.status_code == status
        assert 'href="/ui/queues"' in failed.text and "Sign out" in failed.text, path
        assert "Sign out" not in unknown.text


FORMS: dict[str, dict[str, str]] = {
    "/ui/queues": {"name": "bad name", "visibility": "77", "more": "<b>"},
    "/ui/topics": {"name": "bad <name>"},
    "/ui/queues/{queue}/messages": {"body": 'a "long" <text>', "delay": "soon"},
    "/ui/queues/{queue}/attributes": {"attribute": "VisibilityTimout", "value": "9"},
    "/ui/queues/{queue}/redrive": {"destination": "moon", "rate": "fast"},
    "/ui/topics/{topic}/messages": {"message": "kept", "subject": "s", "attributes": "{no JSON"},
    "/ui/topics/{topic}/subscriptions": {"protocol": "email", "endpoint": "nobody", "policy": '{"a": ["b"]}'},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_refused_form_keeps_what_was_typed(
    form: str, person: Person, queue: str, topic: Topic, sqs: Any, new_name: Callable[[], str]
) -> None:
    dead = queue.rpartition("/")[2]  # a dead-letter queue has the form of a redrive
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    sqs.create_queue(QueueName=new_name(), Attributes={"RedrivePolicy": redrive})
    refused = person.post(form.format(queue=dead, topic=topic.arn.rpartition(":")[2]), **FORMS[form])
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text and "Sign out" in refused.text
    for text in FORMS[form].values():
        shown = html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        typed = (f'value="{shown}"', f">{shown}</textarea>", f"selected>{shown}</option>")
        assert sum(refused.text.count(one) for one in typed) == 1, (text, refused.text)


def test_a_key_is_not_rotated_without_the_confirming_check_box(service: Service, operator: Person) -> None:
    keys = keys_in(service.cns("account", "create").stdout)
    sts = service.client("sts", **keys)
    account = sts.get_caller_identity()["Account"]
    assert operator.post(f"/ui/accounts/{account}/rotate").status_code == 400
    assert sts.get_caller_identity()["Account"] == account
    assert "Its secret is shown only now." in operator.post(f"/ui/accounts/{account}/rotate", sure="yes").text


def test_the_text_about_operators_is_about_more_than_accounts(person: Person) -> None:
    refused = person.http.get("/ui/acts").text
    assert "Only an operator may do or see this: <code>cns operator token</code> prints a token." in refused


def test_the_search_finds_topics_and_arns(person: Person, topic: Topic, queue: str, sqs: Any, sns: Any) -> None:
    def found(text: str) -> httpx.Response:
        return person.http.get("/ui/search", params={"q": text})

    name, queue_name = topic.arn.rpartition(":")[2], queue.rpartition("/")[2]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    subscription = topic.subscribe("sqs", queue_arn)
    pages = {
        name: f"/ui/topics/{name}",
        name[:-1]: f"/ui/topics/{name}",
        topic.arn: f"/ui/topics/{name}",
        queue_arn: f"/ui/queues/{queue_name}",
        subscription: f"/ui/topics/{name}/subscriptions/{subscription.rpartition(':')[2]}",
    }
    assert {text: found(text).url.path for text in pages} == pages
    sqs.create_queue(QueueName=name)
    both = found(name).text
    assert f'href="/ui/topics/{name}"' in both and f'href="/ui/queues/{name}"' in both
    account = topic.arn.split(":")[4]
    for arn in (topic.arn.replace(account, "999999999999"), topic.arn.replace(REGION, "us-west-2"), "arn:moon"):
        assert found(arn).status_code == 404
    sns.create_topic(Name=f"{name}-2")
    assert f'href="/ui/topics/{name}-2"' in found(name).text


def test_a_form_that_no_page_has_is_no_missing_page(person: Person) -> None:
    token = person.form_token()
    refused = person.http.post("/ui/queues", data={"form_token": token}, files={"name": b"a file"})
    assert refused.status_code == 400
    assert "The request is not one that these pages send." in refused.text
    wrong_method = person.http.put("/ui/queues")
    assert (wrong_method.status_code, "There is no such page." in wrong_method.text) == (405, False)


def test_forms_of_other_sites_are_refused(person: Person, new_name: Callable[[], str]) -> None:
    name = new_name()
    for data, headers in (
        ({"name": name}, {}),
        ({"name": name, "form_token": "guess"}, {}),
        ({"name": name, "form_token": person.form_token()}, {"origin": "https://evil.example"}),
        ({"name": name, "form_token": person.form_token()}, {"origin": "http://["}),
    ):
        assert person.http.post("/ui/queues", data=data, headers=headers).status_code == 403
    assert f"No queue begins with “{name}”" in person.http.get("/ui/queues", params={"prefix": name}).text


def test_half_a_surrogate_pair_is_refused(person: Person, new_name: Callable[[], str]) -> None:
    topic = new_name()
    person.post("/ui/topics", name=topic)
    refused = person.post(f"/ui/topics/{topic}/messages", message="m", attributes='{"a": "\\ud800"}')
    assert refused.status_code == 400
    form = b'--x\r\nContent-Disposition: form-data; name="form_token"\r\n\r\n+2AA-\r\n--x--\r\n'
    in_utf7 = {"content-type": "multipart/form-data; boundary=x; charset=utf-7"}
    assert person.http.post("/ui/queues", content=form, headers=in_utf7).status_code == 403


def test_the_cookie_is_no_credential_of_the_rest_api(person: Person, service: Service) -> None:
    person.http.cookies.set("cns_session", person.http.cookies.get("cns_session") or "", path="/")
    assert person.http.get("/api/v1/accounts/111122223333/queues").status_code == 401


def test_an_operator_makes_accounts(service: Service, operator: Person) -> None:
    made = operator.post("/ui/accounts").text
    found = re.search(r"AWS_ACCESS_KEY_ID=(\w+)\nAWS_SECRET_ACCESS_KEY=(\S+)</pre>", html.unescape(made))
    assert found is not None
    assert service.client("sts", key=found[1], secret=found[2]).get_caller_identity()["Account"]
    assert operator.http.get("/ui/queues").status_code == 403


def test_sign_out(person: Person) -> None:
    assert person.post("/ui/sign-out").url.path == "/ui/sign-in"
    assert person.http.get("/ui/queues").url.path == "/ui/sign-in"


def test_a_browser_sees_what_the_port_is(service: Service) -> None:
    status, page = fetch(f"{service.url}/", headers={"accept": "text/html,*/*"}, ca_file=service.ca_file)
    assert status == 200
    assert b'href="/ui/"' in page
    assert fetch(f"{service.url}/", ca_file=service.ca_file)[1].startswith(b"<ErrorResponse")


def test_pages_load_from_this_host_alone(person: Person) -> None:
    policy = person.http.get("/ui/queues").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
