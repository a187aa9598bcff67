"""Challenges of a 401 response, and the Authorization headers that answer them."""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5, sha256
from typing import Any

import pytest

from cns.endpoints.http_auth import (
    Challenge,
    DigestInput,
    EndpointCredentials,
    authorization,
    challenges,
    has_stale_nonce,
)

MUFASA = EndpointCredentials("Mufasa", "Circle of Life")
SENT = DigestInput("/dir/index.html?a=b%20c", b"body")
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
NONCE = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ([], []),
        (["Basic"], [Challenge("basic", {})]),
        (['Basic realm="a, \\"b\\"", charset=UTF-8'], [Challenge("basic", {"realm": 'a, "b"', "charset": "UTF-8"})]),
        (
            ['DIGEST Realm="r",nonce=n , qop="auth, auth-int", Basic realm="s"'],
            [
                Challenge("digest", {"realm": "r", "nonce": "n", "qop": "auth, auth-int"}),
                Challenge("basic", {"realm": "s"}),
            ],
        ),
        (
            ['Negotiate, Basic realm="r"', 'Digest nonce = "n"'],
            [Challenge("negotiate", {}), Challenge("basic", {"realm": "r"}), Challenge("digest", {"nonce": "n"})],
        ),
        (['realm="of no scheme"'], []),
        (
            ['Digest nonce="never closed'],
            [Challenge("digest", {"nonce": ""}), *[Challenge(w, {}) for w in ("never", "closed")]],
        ),
        (["\x00 \xff,,,="], []),
    ],
)
def test_challenges_are_read(fields: list[str], read: list[Challenge]) -> None:
    assert challenges(fields) == read


def test_basic_credentials_are_utf_8() -> None:
    asked = challenges(['Basic realm="r"'])
    expected = "Basic " + b64encode("jürg:a:b".encode()).decode()
    assert authorization(asked, EndpointCredentials("jürg", "a:b"), SENT) == expected


def hexed(kind: Any, *parts: str) -> str:
    digest: str = kind(":".join(parts).encode()).hexdigest()
    return digest


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [("", md5), (", algorithm=MD5", md5), (", algorithm=SHA-256", sha256), (", algorithm=sha-256", sha256)],
)
@pytest.mark.parametrize("qop", ["", "auth", "auth-int", "auth,auth-int"])
def test_digests(algorithm: str, kind: Any, qop: str) -> None:
    """By the formulas of RFC 7616, §3.4, written out once more."""
    field = f'Digest realm="r", nonce="{NONCE}", opaque="o"' + (f', qop="{qop}"' if qop else "") + algorithm
    shown = authorization(challenges([field]), MUFASA, SENT, CNONCE)
    assert shown is not None
    (read,) = challenges([shown])
    fields = read.parameters
    used = "auth" if qop.startswith("auth,") else qop
    ha1 = hexed(kind, "Mufasa", "r", "Circle of Life")
    ha2 = hexed(kind, "POST", SENT.target, *([hexed(kind, "body")] if used == "auth-int" else []))
    expected = hexed(kind, ha1, NONCE, "00000001", CNONCE, used, ha2) if qop else hexed(kind, ha1, NONCE, ha2)
    assert fields["response"] == expected
    assert (fields["username"], fields["uri"], fields["nonce"], fields["opaque"]) == ("Mufasa", SENT.target, NONCE, "o")
    assert (fields.get("qop"), fields.get("nc")) == ((used, "00000001") if qop else (None, None))


def test_the_session_variant() -> None:
    field = f'Digest realm="r", nonce="{NONCE}", qop="auth", algorithm=MD5-sess'
    shown = authorization(challenges([field]), MUFASA, SENT, CNONCE)
    assert shown is not None
    session = hexed(md5, hexed(md5, "Mufasa", "r", "Circle of Life"), NONCE, CNONCE)
    expected = hexed(md5, session, NONCE, "00000001", CNONCE, "auth", hexed(md5, "POST", SENT.target))
    assert f'response="{expected}"' in shown


@pytest.mark.parametrize(
    ("fields", "beginning"),
    [
        (
            ['Basic realm="r"', 'Digest nonce="n", algorithm=MD5', 'Digest nonce="n", algorithm=SHA-256'],
            "Digest SHA-256",
        ),
        (['Digest nonce="n", algorithm=MD5, Digest nonce="n", algorithm=SHA-512-256'], "Digest SHA-512-256"),
        (['Digest nonce="n", algorithm=ROT13, Basic realm="r"'], "Basic "),
        (['Digest realm="without a nonce"', "Basic"], "Basic "),
        (['Digest nonce="n", algorithm=ROT13'], None),
        (["Bearer", "Negotiate"], None),
        ([], None),
    ],
)
def test_the_strongest_known_is_answered(fields: list[str], beginning: str | None) -> None:
    shown = authorization(challenges(fields), MUFASA, SENT)
    if beginning is None:
        assert shown is None
        return
    scheme, _, algorithm = beginning.partition(" ")
    assert shown is not None and shown.startswith(scheme)
    assert not algorithm or f"algorithm={algorithm}," in shown + ","


def test_quotes_cannot_break_out() -> None:
    shown = authorization(challenges(['Digest realm="a\\"b", nonce="n"']), EndpointCredentials('u"\\', "p"), SENT)
    assert shown is not None and r'username="u\"\\", realm="a\"b"' in shown


def test_every_answer_has_a_nonce_of_its_own() -> None:
    asked = challenges(['Digest nonce="n", qop=auth'])
    assert authorization(asked, MUFASA, SENT) != authorization(asked, MUFASA, SENT)


@pytest.mark.parametrize(
    ("field", "stale"),
    [('Digest nonce="n", stale=true', True), ('Digest nonce="n", stale="TRUE"', True), ('Digest nonce="n"', False)],
)
def test_stale_nonces(field: str, stale: bool) -> None:
    assert has_stale_nonce(challenges([field])) is stale
