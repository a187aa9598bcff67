"""Checks of the cluster form's servers: Cassandra and Redis."""

from __future__ import annotations

import socket
import time

import redis

from cns_cli.doctor.findings import CheckResult, ok, problem, warning
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.clock import Clock
from cns_common.configuration.checks import read_contact_points
from cns_common.configuration.settings import Settings
from cns_common.errors import CnsError, StartError
from cns_common.redis.client import close_client, open_client
from cns_common.redis.urls import address_of, read_server_urls

TIMEOUT_S = 5.0
POLICY = "noeviction"
OFFSET_WARNED_S = 0.25
OFFSET_REFUSED_S = 5.0
DIFFERENCES_SHOWN = 3
_NOW = Statement("SELECT toUnixTimestamp(now()) FROM system.local")


async def check_cassandra(settings: Settings) -> list[CheckResult]:
    """Each contact point, the tables, and the clock."""
    points = read_contact_points(settings.cassandra)
    found = [_reach(host, points.port) for host in points.hosts]
    if not any(one.level == "ok" for one in found):
        return found
    if len([one for one in found if one.level == "ok"]) != len(found):
        found = [one if one.level == "ok" else warning(one.check, one.text, one.mend) for one in found]
    try:
        return [*found, *await _tables_and_clock(settings)]
    except (StartError, CnsError) as error:
        return [*found, problem("cassandra", str(error), "`cns schema apply`, or see Cassandra's log")]


def _reach(host: str, port: int) -> CheckResult:
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except OSError as error:
        mend = "start Cassandra, or name its nodes in CNS_CASSANDRA"
        return problem("cassandra", f"{host}:{port} cannot be reached: {error.strerror or error}", mend)
    return ok("cassandra", f"{host}:{port} can be reached")


async def _tables_and_clock(settings: Settings) -> list[CheckResult]:
    from cns_backend import schema  # with its drivers
    from cns_common.cassandra.connection import cassandra_address

    address = cassandra_address(settings)
    differences = await schema.check(address, settings.cassandra_replication)
    keyspace = f"keyspace {settings.cassandra_keyspace}"
    if differences:
        shown = "; ".join(differences[:DIFFERENCES_SHOWN])
        more = len(differences) - DIFFERENCES_SHOWN
        text = f"{keyspace} differs: {shown}" + (f"; and {more} more" if more > 0 else "")
        return [problem("schema", text, "`cns schema apply` adds what is missing; `cns schema check` shows the rest")]
    return [ok("schema", f"{keyspace} is as declared"), await _clock(await Cassandra.open(address))]


async def _clock(cassandra: Cassandra) -> CheckResult:
    """The difference between the clocks of this machine and a node, minus the duration of the request."""
    try:
        before_s = time.monotonic()
        rows = await cassandra.run(_NOW)
        own_ms, took_s = Clock().real_ms(), time.monotonic() - before_s
    finally:
        await cassandra.close()
    value = rows[0][0]
    theirs_s = value.timestamp() if hasattr(value, "timestamp") else float(value) / 1_000
    offset_s = own_ms / 1_000 - theirs_s
    certain_s = max(0.0, abs(offset_s) - took_s)
    text = f"this machine's clock is {abs(offset_s):.2f} s {'ahead of' if offset_s > 0 else 'behind'} Cassandra's"
    mend = "set the clock: `timedatectl set-ntp true`"
    if certain_s > OFFSET_REFUSED_S:
        return problem("cassandra clock", f"{text}: receives are refused", mend)
    if certain_s > OFFSET_WARNED_S:
        return warning("cassandra clock", text, mend)
    return ok("cassandra clock", "this machine's and Cassandra's agree")


async def check_redis(settings: Settings) -> list[CheckResult]:
    """Check each server of CNS_REDIS, and for Sentinels the primary that they name."""
    urls = read_server_urls(settings.redis)
    if not urls:
        return [warning("redis", "none is configured: receives are slower without", "set CNS_REDIS")]
    return [await _redis(name, url) for name, url in urls.items()]


async def _redis(name: str, url: str) -> CheckResult:
    where = f"{name} at {address_of(url)}"
    server = open_client(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
    try:
        policy = (await server.info("memory")).get("maxmemory_policy", POLICY)
    except redis.AuthenticationError as error:
        return problem("redis", f"{where} refuses the password: {error}", "correct the user and password in CNS_REDIS")
    except (redis.RedisError, OSError) as error:
        return warning("redis", f"{where} does not answer: {error}", "start it, or correct CNS_REDIS")
    finally:
        await close_client(server)
    if policy != POLICY:
        text = f"{where} has maxmemory-policy {policy}, which removes what hides messages"
        return problem("redis", text, f"redis-cli CONFIG SET maxmemory-policy {POLICY}, and in its file")
    return ok("redis", f"{where} answers, maxmemory-policy {policy}")
