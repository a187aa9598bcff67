"""The message, the subject, and MessageStructure=json."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cns.notification import Notification
from cns.publishing.message_text import check_message, check_size, check_subject, texts_of
from cns_common.errors import RequestError
from tests.unit.sns.refusals import complaint_of


@pytest.mark.parametrize(("message", "complaint"), [("", "Empty message"), ("\ud800", "Message")])
def test_messages_refused(message: str, complaint: str) -> None:
    assert complaint_of(check_message, message) == complaint


def test_size_limit() -> None:
    check_size(262_144, 262_144)
    assert complaint_of(check_size, 262_145, 262_144) == "Message too long"


@pytest.mark.spec("sns-publish.subject-length", "sns-publish.subject-unicode")
@pytest.mark.parametrize("subject", [None, "a", "a" * 100, "界" * 100, "🙂" * 50, "naïve – “quoted”", " leading"])
def test_subjects_taken(subject: str | None) -> None:
    check_message("m")
    check_subject(subject)


@pytest.mark.spec("sns-publish.subject-length", "sns-publish.subject-characters")
@pytest.mark.parametrize(
    "subject",
    ["", "a" * 101, "界" * 101, "🙂" * 51, "a" * 99 + "🙂", "a\nb", "a\rb", "a\tb", "\x7f", "\x85", "\u2028", "\ud800"],
)
def test_subjects_refused(subject: str) -> None:
    assert complaint_of(check_subject, subject) == "Subject"


@pytest.mark.spec(
    "sns-structure.unknown", "sns-structure.default-scalar", "sns-structure.empty-text", "sns-structure.repeated"
)
@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ('{"default":"d"}', {"default": "d"}),
        ('{"default":"d","sqs":"q","http":"h"}', {"default": "d", "sqs": "q", "http": "h"}),
        ('{"default":"fallback","sqs":""}', {"default": "fallback", "sqs": ""}),
        ('{"default":""}', {"default": ""}),
        ('{"default": 17}', {"default": "17"}),
        ('{"default": 1.50 }', {"default": "1.50"}),
        ('{"default": null}', {"default": "null"}),
        ('{"default": true}', {"default": "true"}),
        ('{"default":"a","default":"b"}', {"default": "b"}),
        ('{"default":"d","sqs":17,"http":{"a":1},"email":null}', {"default": "d"}),
        ('{"default":"d","sqs":"d"}', {"default": "d"}),
        (r'{"default":"\u96ea\ud83d\ude42\n"}', {"default": "雪🙂\n"}),
    ],
)
def test_texts_of_a_structured_message(message: str, texts: dict[str, str]) -> None:
    assert texts_of(message, "json") == texts


def test_a_plain_message_is_its_own_text() -> None:
    assert texts_of('{"sqs":"q"}', None) == {"default": '{"sqs":"q"}'}


NO_DEFAULT = "Message Structure - No default entry in JSON message body"
UNPARSABLE = "Message Structure - JSON message body failed to parse"


@pytest.mark.spec(
    "sns-structure.no-default", "sns-structure.default-object", "sns-structure.not-json", "sns-structure.json-only"
)
@pytest.mark.parametrize(
    ("message", "structure", "complaint"),
    [
        ("{}", "json", NO_DEFAULT),
        ('{"sqs":"q"}', "json", NO_DEFAULT),
        ('{"default":{"value":17}}', "json", NO_DEFAULT),
        ('{"default":[17]}', "json", NO_DEFAULT),
        ("plain", "json", UNPARSABLE),
        ('{"default":"d"', "json", UNPARSABLE),
        ('{"default":"d"} x', "json", UNPARSABLE),
        ("[]", "json", UNPARSABLE),
        ('"default"', "json", UNPARSABLE),
        ("null", "json", UNPARSABLE),
        (r'{"default":"\ud800 half a pair"}', "json", UNPARSABLE),
        ('{"default":"\ud800"}', "json", UNPARSABLE),
        ('{"default":' + "[" * 100_000 + "]" * 100_000 + "}", "json", UNPARSABLE),
        ('{"default":"d"}', "JSON", "MessageStructure"),
        ('{"default":"d"}', "", "MessageStructure"),
    ],
)
def test_structured_messages_refused(message: str, structure: str, complaint: str) -> None:
    assert complaint_of(texts_of, message, structure) == complaint


@given(
    st.dictionaries(st.sampled_from(["default", "sqs", "http", "x"]), st.text() | st.none() | st.floats() | st.just([]))
)
def test_texts_are_all_text(document: dict[str, object]) -> None:
    try:
        texts = texts_of(json.dumps(document), "json")
    except RequestError:
        return
    assert all(isinstance(text, str) for text in texts.values())
    assert all(texts[name] == value for name, value in document.items() if isinstance(value, str) and name in texts)


def test_the_text_of_a_protocol() -> None:
    notification = Notification(
        id="i", topic_arn="t", timestamp_ms=0, texts=texts_of('{"default":"d","sqs":"","http":"h"}', "json")
    )
    assert [notification.text_for(name) for name in ("http", "https", "sqs", "email")] == ["h", "d", "", "d"]
