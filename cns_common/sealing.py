"""Secrets at rest: sealed with AES-256-GCM under the master key, each bound to the name of its record."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import apsw
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cns_common.data_directory import EXIT_DATA_UNUSABLE, sync_directory, unusable
from cns_common.errors import StartError
from cns_common.sqlite.opening import MASTER_KEY_FILE, has_secrets

MASTER_KEY_BYTES = 32
_NONCE_BYTES = 12


class Seal:
    def __init__(self, master_key: bytes) -> None:
        self._cipher = AESGCM(master_key)
        self._master_key = master_key

    def derived_key(self, purpose: bytes) -> bytes:
        """A key of MASTER_KEY_BYTES for one purpose, derived from the master key and a label of at most 16 bytes. The
        master key cannot be computed from it."""
        return hashlib.blake2b(key=self._master_key, person=purpose, digest_size=MASTER_KEY_BYTES).digest()

    def close(self, name: str, secret: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except InvalidTag:
            raise StartError("the master key does not open the stored secrets", EXIT_DATA_UNUSABLE) from None


def load_master_key(directory: Path, given: str, *, may_make: bool = True) -> bytes:
    """The key that seals secrets: `given` (base64), or the file `master.key`, made if it is missing and `may_make`."""
    if given:
        key = _decode(given.encode())
        if len(key) != MASTER_KEY_BYTES:
            raise StartError("CNS_MASTER_KEY must be the base64 text of 32 bytes", EXIT_DATA_UNUSABLE)
        return key
    path = directory / MASTER_KEY_FILE
    try:
        if may_make and not path.exists():
            _make(path)
        key = _decode(path.read_bytes())
    except OSError as error:
        raise unusable(f"cannot use the master key {path}", error) from error
    if len(key) != MASTER_KEY_BYTES:
        raise StartError(f"the master key {path} is damaged", EXIT_DATA_UNUSABLE)
    return key


def require_master_key(directory: Path, given: str, connection: apsw.Connection) -> None:
    """Raise StartError if secrets are stored and their key is missing: a new key would not open them."""
    path = directory / MASTER_KEY_FILE
    if not given and not path.exists() and has_secrets(connection):
        raise StartError(
            f"{path} is missing, which opens the secrets stored in {directory}: restore it, or set CNS_MASTER_KEY",
            EXIT_DATA_UNUSABLE,
        )


def _decode(text: bytes) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return b""


def _make(path: Path) -> None:
    """Make the file. If several processes do so at once, one's key is stored."""
    key = secrets.token_bytes(MASTER_KEY_BYTES)
    scratch = path.with_suffix(f".{os.getpid()}")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(base64.b64encode(key) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(scratch, path)
    scratch.unlink()
    sync_directory(path.parent)  # secrets sealed from now on are lost without this file
