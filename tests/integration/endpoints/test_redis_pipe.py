"""The Redis pipe: answers in order, errors of single commands, and errors of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from cns_common.redis.pipe import PipeError, RedisPipe, ReplyError
from lab.harness.own_redis import OwnRedis

TIMEOUT_S, SHORT_TIMEOUT_S = 30.0, 0.5
ATTEMPTS = 20


@pytest.fixture
async def pipe(own_redis: OwnRedis) -> AsyncIterator[RedisPipe]:
    opened = RedisPipe(own_redis.url, TIMEOUT_S)
    yield opened
    opened.close()


async def test_concurrent_commands_get_their_own_answers(pipe: RedisPipe) -> None:
    connection = await pipe.connection()
    assert await asyncio.gather(*[connection.execute("ECHO", str(n)) for n in range(1_000)]) == [
        b"%d" % n for n in range(1_000)
    ]
    assert await pipe.connection() is connection


async def test_concurrent_callers_share_a_connection(pipe: RedisPipe) -> None:
    connections = await asyncio.gather(*[pipe.connection() for _ in range(20)])
    assert len(set(connections)) == 1


async def test_an_error_fails_only_its_own_command(pipe: RedisPipe) -> None:
    connection = await pipe.connection()
    good, bad, after = (
        connection.execute("ECHO", "a"),
        connection.execute("EVALSHA", "0" * 40, 0),
        connection.execute("ECHO", b"\x00\xff"),
    )
    assert await good == b"a"
    with pytest.raises(ReplyError, match="NOSCRIPT"):
        await bad
    assert await after == b"\x00\xff"


async def test_a_cancelled_command_does_not_shift_answers(pipe: RedisPipe) -> None:
    connection = await pipe.connection()
    gone, stays = connection.execute("ECHO", "gone"), connection.execute("ECHO", "stays")
    gone.cancel()
    assert await stays == b"stays"


async def test_a_server_that_dies_fails_running_commands_and_has_a_new_run_id(
    pipe: RedisPipe, own_redis: OwnRedis
) -> None:
    connection = await pipe.connection()
    first = pipe.run_id
    waiting = [connection.execute("BLPOP", "nothing", 0), connection.execute("ECHO", "behind")]
    own_redis.kill()
    for each in waiting:
        with pytest.raises(PipeError):
            await each
    with pytest.raises(PipeError):
        await connection.execute("PING")
    with pytest.raises(PipeError, match="cannot use Redis"):
        await pipe.connection()
    own_redis.start()
    assert await (await pipe.connection()).execute("PING") == b"PONG"
    assert pipe.run_id != first


async def is_answered(impatient: RedisPipe) -> bool:
    """On a busy machine the server may answer too late, but not time after time."""
    for _ in range(ATTEMPTS):
        with suppress(PipeError):
            return bool(await (await impatient.connection()).execute("PING") == b"PONG")
    return False


async def test_a_silent_server_times_out(own_redis: OwnRedis) -> None:
    impatient = RedisPipe(own_redis.url, SHORT_TIMEOUT_S)
    assert await is_answered(impatient)
    connection = await impatient.connection()
    own_redis.pause()
    try:
        with pytest.raises(PipeError, match="closed the connection"):
            await connection.execute("PING")
        with pytest.raises(PipeError, match="no answer"):
            await impatient.connection()
    finally:
        own_redis.resume()
    assert await is_answered(impatient)
    impatient.close()


async def test_passwords_databases_and_sockets(tmp_path: Path) -> None:
    own_redis = OwnRedis(tmp_path, options=("--requirepass", "open sesame", "--unixsocket", str(tmp_path / "socket")))
    own_redis.start()
    try:
        for url, is_let_in in (
            (f"redis://:open%20sesame@127.0.0.1:{own_redis.port}/3", True),
            (f"redis://default:open%20sesame@127.0.0.1:{own_redis.port}", True),
            (f"unix://:open%20sesame@{tmp_path}/socket?db=3", True),
            (f"redis://:wrong@127.0.0.1:{own_redis.port}/3", False),
            (f"redis://127.0.0.1:{own_redis.port}/3", False),
        ):
            pipe = RedisPipe(url, TIMEOUT_S)
            if is_let_in:
                assert await (await pipe.connection()).execute("SET", "key", "value") == b"OK"
                database = b"db=3" if url.endswith(("/3", "=3")) else b"db=0"
                assert database in await (await pipe.connection()).execute("CLIENT", "INFO")
            else:
                with pytest.raises(PipeError, match="cannot use Redis"):
                    await pipe.connection()
            pipe.close()
    finally:
        own_redis.kill()
