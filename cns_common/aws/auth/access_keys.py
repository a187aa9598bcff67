"""Access keys: what they are, how they are made, and the principal that each is of."""

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
    """A key pair as it is handed out, or held in the key ring. Without `user` it is the account's root's."""

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


def caller_of(key: AccessKey) -> Caller:
    """The principal whose key it is."""
    if key.user:
        return user_caller(key.account, key.user, key.user_id, key.key_id)
    return root_caller(key.account, key.key_id)
