"""The text of a configuration file as values, and its JSON schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cns_cli.config.document import read_file, read_text
from cns_cli.config.export import yaml_text
from cns_cli.config.model import File
from cns_cli.config.source import DEPTH_MAX, ConfigError, Source

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n" for before, after in zip("abcdef", "bcdefg", strict=True)
)


def value_of(text: str) -> Any:
    return Source("f", text).value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: [on, no, 2012-10-17, 0x1f, 1_000, 012, .5, 1., +1, 0o7, NaN, .inf, '1', \"2\", ~]", None),
        ("a: [1, -2, 0, true, false, null, ~]", {"a": [1, -2, 0, True, False, None, None]}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ('{\n\t"a":\t["\\ud83d\\ude00", "\\/"],\n\t"\\ud83d\\ude00": 1}', {"a": ["😀", "/"], "😀": 1}),
        ("1: a\ntrue: b\n1.0: c", {"1": "a", "true": "b", "1.0": "c"}),
        ("a: [!!str 5, !!str true, ! 6]", {"a": ["5", "true", 6]}),
    ],
)
def test_words_are_read_as_json_has_them(text: str, value: Any) -> None:
    read = value_of(text)
    if value is not None:
        assert read == value
    elif text:
        assert [type(word) for word in read["a"]] == [str] * 14 + [type(None)]


def test_a_number_keeps_its_text_where_text_is_wanted() -> None:
    text = "queues: {q: {tags: {a: 1.10, b: 1e3, c: 7, d: true}, attributes: {X: 1.10, Y: null, Z: {n: 1.5}}}}"
    queue = File.model_validate(value_of(text)).queues["q"]
    assert queue.tags == {"a": "1.10", "b": "1e3", "c": "7", "d": "true"}
    assert queue.attributes == {"X": "1.10", "Y": "", "Z": '{"n":1.5}'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n  b: 1\n  b: 2\n", "f:3: a.b: is there twice"),
        ("a: 1\nb: [1\n", "f:3: "),
        ("a: !python/object:os.system x", "f:1: a: the YAML tag !python/object:os.system is not known"),
        ("? [a]\n: b", "f:1: a key must be text"),
        ('a: "\\ud800"', "f:1: a: a lone surrogate is not text"),
        ("a: &a [*a]", "f:1: a.0.0: nested deeper"),
        ("[" * (DEPTH_MAX + 5) + "]" * (DEPTH_MAX + 5), "f:1: 0.0.0: nested deeper"),
        ("[" * 100_000, "f:1: nested too deeply"),
        (BOMB, "f:"),
        ("a: !!binary aGk=", "f:1: a: the YAML tag tag:yaml.org,2002:binary is not known"),
        ("a: !!python/name:os.system x", "f:1: a: the YAML tag tag:yaml.org,2002:python/name:os.system is not known"),
        ("a: !!set {b}", "f:1: a: the YAML tag tag:yaml.org,2002:set is not known"),
        ("a: 1\nb: 2\x00", "f:2: the character U+0000 is not allowed"),
        ('a: "\\U7fffffff"', "f:1: "),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_a_text_that_is_no_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Source("f", text)
    assert refused.value.lines[0].startswith(said)


@pytest.mark.parametrize(
    "word", ["1e3", "on", "1.10", "0o7", "~", "", "null", "-5", "1_0", "a: b", "é\u2028", "2012-10-17"]
)
def test_text_that_is_written_is_read_again(word: str) -> None:
    assert value_of(yaml_text({word: [word]})) == {word: [word]}


@pytest.mark.parametrize("text", ["queues: {q: }", '{\n\t"queues": {"q": null}}'])
def test_a_byte_order_mark_is_no_part_of_the_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text, "utf-8-sig")
    assert list(read_file(str(tmp_path / "f")).file.queues) == ["q"]


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigError) as refused:
        read_file(str(tmp_path / "f"))
    assert str(refused.value).endswith("f:2: is not UTF-8: invalid continuation byte")


@pytest.mark.parametrize("count", ["true", "'3'", "3.0"])
def test_a_receive_count_is_an_integer(count: str) -> None:
    with pytest.raises(ValueError, match="valid integer"):
        File.model_validate(value_of(f"queues: {{q: {{deadLetterQueue: {{queue: d, maxReceiveCount: {count}}}}}}}"))


def test_the_schema_has_the_members_of_the_file() -> None:
    schema = File.model_json_schema()
    subscription = schema["$defs"]["Subscription"]
    assert {"filterPolicy", "rawDelivery", "deadLetterQueue", "allow"} <= subscription["properties"].keys()
    assert (subscription["required"], subscription["additionalProperties"]) == (
        ["topic", "protocol", "endpoint"],
        False,
    )
    assert json.loads(json.dumps(schema)) == schema


def test_a_user_has_a_name_of_iam() -> None:
    (problem,) = read_text("f", "accounts: {123456789012: {users: {a b: }}}").problems
    assert problem.path == ("accounts", "123456789012", "users", "a b")
