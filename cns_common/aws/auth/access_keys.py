"""Access keys, and the principal that each belongs to."""

from __future__ import annotations

import secrets
import string

import msgspec

from cns_common.aws.call import Caller, root_caller, user_caller

KEY_ID_LENGTH = 20
SECRET_LENGTH = 40
KEY_ALPHABET = string.ascii_uppercase + "234567"
_SECRET_ALPHABET = string.ascii_letters + string.digits + "+/"


class AccessKey(msgspec.Struct, frozen=True):
    """A key pair with its secret. It belongs to `user`, or to the account's root when that is empty."""

    account: str
    key_id: str
    secret: str
    created_ms: int
    user: str = ""
    user_id: str = ""


def new_key(account: str, now_ms: int) -> AccessKey:
    key_id = "AKIA" + "".join([secrets.choice(KEY_ALPHABET) for _ in range(KEY_ID_LENGTH - 4)])
    secret = "".join([secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_LENGTH)])
    return AccessKey(account, key_id, secret, now_ms)


def described_key(key: AccessKey) -> str:
    """The key without its secret, in words."""
    return f"account {key.account}, {f'user {key.user}, ' if key.user else ''}key {key.key_id}"


def caller_of(key: AccessKey) -> Caller:
    """The principal that the key belongs to."""
    if key.user:
        return user_caller(key.account, key.user, key.user_id, key.key_id)
    return root_caller(key.account, key.key_id)
