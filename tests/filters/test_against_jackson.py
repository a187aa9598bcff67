"""Errors for invalid JSON have the exact words of Jackson, the parser in AWS's services.

The Jackson here is newer than AWS's: it reports the start of an unrecognized token, AWS (as recorded) its end.
"""

from __future__ import annotations

import json
import re
import subprocess
from random import Random

import pytest

from cns.json_errors import json_fault
from lab.harness.waiting import PATIENCE_S
from tests.clients.installing import installed

SEED = 18
TEXTS = 12_000
KINDS_MIN = 30
PIECES = (
    *"{}[],:+-.eE01/#_$xInt \n\r\t\x00\x0c\x7f\u00e9\u20ac\u200b\u2028\u0663\U0001f642",
    *('"a"', '"b\\n"', '"', "\\", "\\u00e9", "\\u12", "true", "false", "null", "tru", "NaN", "Infinity", "-INF"),
    *("23", "-4", "5.6", "7e8", "0.5", "1.", "2e", "3e+", "\r\n", "'a'", "abc", "x" * 300),
)
GOOD = (
    '{"key":[{"numeric":[">",0,"<=",100]}],"b":{"c":["d"]}}',
    '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:123456789012:dead"}',
    '{"a":["b",1,true,null,{"c":-1.5e3}]}',
    '{\n "a" : [ 1 ,\r\n 2 ]\n}',
)
_TOKEN = re.compile(r"(Unrecognized token '(.*?)(?:\.\.\.)?': .*column: )(\d+)\]", re.DOTALL)


def texts(seed: int, n: int) -> list[str]:
    """Random sequences of JSON tokens, and JSON with a few mistakes."""
    random = Random(seed)
    return [_pieces(random) if random.random() < 0.5 else _mistaken(random) for _ in range(n)]


def _pieces(random: Random) -> str:
    return "".join(random.choices(PIECES, k=random.randint(1, 9)))


def _mistaken(random: Random) -> str:
    characters = list(random.choice(GOOD))
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(characters))
        mistake = random.random()
        if mistake < 0.4:
            del characters[at : at + 1]
        elif mistake < 0.8:
            characters.insert(at, random.choice(PIECES))
        else:
            del characters[at:]
    return "".join(characters)


def jackson(given: list[str]) -> list[str | None]:
    *java, _ = installed("ruler")
    done = subprocess.run(
        [*java, "ruler.Parse"],
        input="".join(json.dumps(text) + "\n" for text in given),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def as_recorded(message: str | None) -> str | None:
    """The message with the end of an unrecognized token instead of its start."""
    found = _TOKEN.fullmatch(message or "")
    return message if found is None else f"{found[1]}{int(found[3]) + len(found[2])}]"


def kind(message: str | None) -> str:
    """The message without its parts that depend on the text."""
    return re.sub(r"'.*?'|\d+|0x\w+|\n.*", "", message or "", flags=re.DOTALL)


@pytest.mark.extended
def test_every_text_is_told_of_alike() -> None:
    given = texts(SEED, TEXTS)
    answers = [as_recorded(message) for message in jackson(given)]
    assert len(answers) == len(given)
    for text, answer in zip(given, answers, strict=True):
        assert json_fault(text) == answer, text
    assert len({kind(answer) for answer in answers}) >= KINDS_MIN
