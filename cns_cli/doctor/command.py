"""`cns doctor`: runs the checks and prints a line per finding."""

from __future__ import annotations

import asyncio
import os
import sys

from cns_cli.doctor.endpoint import check_endpoint
from cns_cli.doctor.findings import CheckResult, line, problem, summary
from cns_cli.doctor.machine import check_disk, check_files, check_java, check_port
from cns_cli.options import Data, Json
from cns_cli.output import print_json, refuse
from cns_cli.progress import Steps, open_steps
from cns_cli.remote.connection import Profile, Region, StoredProfile, Url, UsageError, read_settings
from cns_cli.store_access import open_service_backend
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import CnsError, StartError
from cns_common.logs import set_up_logs
from cns_common.sqlite.database import STORE_FILE

EXIT_PROBLEM = 1


def doctor(
    profile: Profile = "",
    url: Url = "",
    region: Region = "",
    data: Data = None,
    json: Json = False,
) -> None:
    """Check for common faults, and print the command that fixes each: endpoint, keys, clock, SMS sandbox,
    policies, subscriptions, dead-letter queues, visibility, endpoints that are down, messages dropped within the last
    hour, files, port, disk, data, backup, Java, Cassandra, Redis. Exit code 1 if there is a problem.

    Example: cns doctor --data data
    """
    set_up_logs("error", "command")
    try:
        settings = load_settings(data)
        client = read_settings(profile, url, region, os.environ)  # noqa: TID251  # variables of AWS SDKs, no settings
        found = asyncio.run(_check(settings, client, named=bool(url)))
    except StartError as error:
        refuse(error, error.exit_code)
    except UsageError as error:
        refuse(error)
    if json:
        print_json([{"findings": found}])
    else:
        print(*map(line, found), summary(found), sep="\n")
    sys.exit(EXIT_PROBLEM if any(one.level == "problem" for one in found) else 0)


async def _check(settings: Settings, client: StoredProfile, *, named: bool) -> list[CheckResult]:
    with open_steps("checking") as steps:
        answer = await asyncio.to_thread(check_endpoint, settings, client, named=named)
        steps.advance()
        found = [
            *answer.findings,
            check_port(settings, is_serving=answer.is_cns),
            check_files(settings),
            check_disk(settings),
            await asyncio.to_thread(check_java),
        ]
        steps.advance()
        found += await _check_servers(settings)
        steps.advance()
        if settings.store == "cassandra" or (settings.data / STORE_FILE).exists():
            found += await _check_messaging(settings, client, steps)
    return found


async def _check_servers(settings: Settings) -> list[CheckResult]:
    """Check the data directory, or Cassandra and Redis."""
    if settings.store == "embedded":
        from cns_cli.doctor.data import check_data

        return check_data(settings)
    from cns_cli.doctor.cluster import check_cassandra, check_redis  # only this form has its drivers installed

    return [*await check_cassandra(settings), *await check_redis(settings)]


async def _check_messaging(settings: Settings, client: StoredProfile, steps: Steps) -> list[CheckResult]:
    from cns_cli.doctor.deliveries import check_deliveries
    from cns_cli.doctor.messaging import check_messaging  # slow to import

    try:
        async with open_service_backend(settings) as backend:
            found = await check_messaging(settings, backend, [client.region], steps.advance)
            return found + await check_deliveries(settings, backend)
    except (StartError, CnsError) as error:
        return [problem("messaging", f"queues and topics cannot be read: {error}", "see the lines above")]
