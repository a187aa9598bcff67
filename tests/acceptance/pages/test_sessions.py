"""Sessions of the pages: each sign-in has its own, which its sign-out ends in every process and for good."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from lab.harness.running import Up, running
from lab.harness.service import REGION, Service
from lab.harness.waiting import PATIENCE_S
from tests.acceptance.pages.person import Person

CONNECTIONS = 12  # they are spread over the API processes
COOKIE = "cns_session"


def is_signed_in(url: str, cookie: str) -> bool:
    with httpx.Client(base_url=url, cookies={COOKIE: cookie}, timeout=PATIENCE_S) as copy:
        return copy.get("/ui/service").status_code == 200


def cookie_of(someone: Person) -> str:
    return someone.http.cookies[COOKIE]


@pytest.fixture
def sign_in(service: Service, open_browser: Callable[[], Person]) -> Callable[[str], Person]:
    keys, token = service.environment, service.cns("operator", "token").stdout.strip()
    ways = {
        "account": {"key_id": keys["AWS_ACCESS_KEY_ID"], "secret": keys["AWS_SECRET_ACCESS_KEY"], "region": REGION},
        "operator": {"operator_token": token},
    }

    def sign_in(who: str) -> Person:
        someone = open_browser()
        someone.sign_in(**ways[who])
        return someone

    return sign_in


@pytest.mark.parametrize("who", ["account", "operator"])
def test_sign_out_ends_every_copy_of_the_cookie(service: Service, sign_in: Callable[[str], Person], who: str) -> None:
    first, second = sign_in(who), sign_in(who)
    copied, other = cookie_of(first), cookie_of(second)
    assert copied != other
    assert is_signed_in(service.url, copied)
    first.post("/ui/sign-out")
    assert not is_signed_in(service.url, copied)
    assert is_signed_in(service.url, other), "each sign-in is a session of its own"


@pytest.mark.parametrize("who", ["account", "operator"])
def test_a_session_is_no_credential_elsewhere(
    service: Service, sign_in: Callable[[str], Person], open_browser: Callable[[], Person], who: str
) -> None:
    """A copy that was taken before the sign-out is of no use at another face either."""
    cookie = cookie_of(sign_in(who))
    path = f"{service.url}/api/v1/caller" if who == "account" else f"{service.url}/api/v1/accounts"
    assert httpx.get(path, headers={"authorization": f"Bearer {cookie}"}).status_code == 401
    assert httpx.get(path, params={"auth": cookie}).status_code == 401
    assert open_browser().sign_in(operator_token=cookie).status_code == 401


@pytest.mark.extended
def test_a_sign_out_holds_in_every_process_and_after_a_restart(tmp_path: Path) -> None:
    def sign_in(service: Up) -> str:
        keys = service.environment
        with httpx.Client(base_url=service.url, follow_redirects=True, timeout=PATIENCE_S) as http:
            someone = Person(http)
            someone.sign_in(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
            return cookie_of(someone)

    with running(tmp_path / "data", "--api", "2") as service:
        ended, kept = sign_in(service), sign_in(service)
        with httpx.Client(base_url=service.url, cookies={COOKIE: ended}, timeout=PATIENCE_S) as http:
            Person(http).post("/ui/sign-out")
        assert [is_signed_in(service.url, ended) for _ in range(CONNECTIONS)] == [False] * CONNECTIONS
        assert [is_signed_in(service.url, kept) for _ in range(CONNECTIONS)] == [True] * CONNECTIONS
    with running(tmp_path / "data") as service:
        assert (is_signed_in(service.url, ended), is_signed_in(service.url, kept)) == (False, True)


def test_after_the_sign_in_the_page_is_shown_that_was_asked_for(
    service: Service, open_browser: Callable[[], Person]
) -> None:
    keys = service.environment
    secret = {"secret": keys["AWS_SECRET_ACCESS_KEY"], "region": REGION}
    someone = open_browser()
    asked = someone.http.get("/ui/queues", params={"prefix": "a&b"})
    assert asked.url.path == "/ui/sign-in"
    found = re.search(r'name="next" value="([^"]+)"', asked.text)
    assert found is not None
    link = html.unescape(found[1])
    wrong = someone.sign_in(key_id=keys["AWS_ACCESS_KEY_ID"], secret="a-wrong-secret", next=link)
    assert wrong.status_code == 401 and "a-wrong-secret" not in wrong.text
    assert f'value="{keys["AWS_ACCESS_KEY_ID"]}"' in wrong.text and f'value="{html.escape(link)}"' in wrong.text
    shown = someone.sign_in(key_id=keys["AWS_ACCESS_KEY_ID"], next=link, **secret)
    assert (shown.url.path, shown.url.query) == ("/ui/queues", b"prefix=a%26b")

    someone.http.cookies.clear()  # the session has ended while a form was filled in
    posted = someone.http.post("/ui/queues/some/messages", data={"body": "m"})
    assert posted.url.params["next"] == "/ui/queues/some"


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/ui/queues",
        "//evil.example/ui/queues",
        "/ui",
        "/api/v1/",
        "/\\evil.example",
        "/ui/\\..\\..\\evil.example",
        "/ui/queues\r\nset-cookie: a=b",
        "javascript:alert(1)",
        "/ui/sign-in",
        " /ui/topics",
        "/ui/" + "a" * 3_000,
    ],
)
def test_a_sign_in_leads_to_own_pages_only(service: Service, link: str) -> None:
    keys = service.environment
    fields = {"key_id": keys["AWS_ACCESS_KEY_ID"], "secret": keys["AWS_SECRET_ACCESS_KEY"], "next": link}
    answer = httpx.post(f"{service.url}/ui/sign-in", data=fields, timeout=PATIENCE_S)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")
