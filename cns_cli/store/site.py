"""`cns site …`: shows and changes the active one of two data centres."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cns_cli.activity import recorded
from cns_cli.options import Json
from cns_cli.output import print_json, print_value, refuse
from cns_common.configuration.settings import Settings, load_settings
from cns_common.errors import CnsError, StartError

if TYPE_CHECKING:  # its driver is installed in the cluster form only
    from cns_backend.sites.decision import DecisionView
    from cns_backend.sites.gaps import SiteGap
    from cns_backend.sites.operator import SiteOperator

EXIT_FAILED = 1
Result = TypeVar("Result")

app = typer.Typer(help="Sites of the cluster form: CNS_CASSANDRA_SITES.", no_args_is_help=True, add_completion=False)


@app.command("show")
def site_show(json: Json = False) -> None:
    """Print the active site and the number of its activation, whether the other site answers, the acting processes, and
    the periods of which a site may lack writes.

    Example: cns site show
    """
    settings = load_settings()
    view, lacking = _run(settings, lambda sites: _look(sites, list(settings.site_replicas())))
    decision = view.decision
    if json:
        processes = [{"process": one.process, "site": one.site, "epoch": one.epoch} for one in decision.processes]
        known = {"active": decision.active or None, "epoch": decision.epoch, "alone": decision.alone}
        gaps = [
            {"site": site, "sinceMs": gap.since_ms, "untilMs": gap.until_ms, "grows": grows}
            for site, gap, grows in lacking
        ]
        print_json([{**known, "otherSiteAnswers": view.reachable, "processes": processes, "lacking": gaps}])
        return
    print(f"active\t{decision.active or 'none'}\t{decision.epoch}{'	alone' if decision.alone else ''}")
    print(f"other site\t{'answers' if view.reachable else 'does not answer'}")
    for process in sorted(decision.processes):
        print(f"process\t{process.process[:8]}\t{process.site}\t{process.epoch}")
    for site, gap, grows in lacking:
        print(f"lacks writes\t{site}\t{gap}\t{'grows' if grows else 'to be repaired'}")


async def _look(sites: SiteOperator, names: list[str]) -> tuple[DecisionView, list[tuple[str, SiteGap, bool]]]:
    view, now_ms = await sites.view(), await sites.now_ms()
    gaps = [(name, await sites.lacking(name, everywhere=view.reachable)) for name in names]
    return view, [(name, gap, gap.until_ms > now_ms) for name, gap in gaps if gap is not None]


@app.command("activate")
def site_activate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data centre of CNS_CASSANDRA_SITES.")],
    other_site_lost: Annotated[
        bool,
        typer.Option("--other-site-lost", help="Confirm that the site that does not answer serves no clients."),
    ] = False,
    repaired: Annotated[
        bool,
        typer.Option("--repaired", help="Confirm that it has the writes accepted while it was unreachable."),
    ] = False,
    json: Json = False,
) -> None:
    """Make this site the active one. The processes of the other site end their work first.

    A site that was unreachable must be repaired before: the command reads Cassandra's record of repairs.

    Example: cns site activate dc2
    """
    from cns_backend.sites.operator import SiteChange

    settings = load_settings()
    if name not in settings.site_replicas():
        refuse(f"{name} is no site of CNS_CASSANDRA_SITES")
    change = SiteChange(name, settings.cassandra_data_centre, other_site_lost, repaired)
    words = {"the other site is lost": other_site_lost, "repaired": repaired}
    with recorded(None, "ActivateSite", name, ", ".join([word for word, given in words.items() if given])):
        decision = _run(settings, lambda sites: sites.activate(change))
    print_value(
        {"active": decision.active, "epoch": decision.epoch},
        f"cns: site {decision.active} is active, activation {decision.epoch}",
        json=json,
    )


def _run(settings: Settings, work: Callable[[SiteOperator], Awaitable[Result]]) -> Result:
    if not settings.site_replicas():
        refuse("there is one site: CNS_CASSANDRA_SITES is not set")

    async def run() -> Result:
        from cns_backend.cluster import open_site_store
        from cns_backend.sites.operator import SiteOperator

        async with open_site_store(settings) as store:
            return await work(SiteOperator(store, settings.cassandra_keyspace))

    try:
        return asyncio.run(run())
    except StartError as error:
        refuse(error, error.exit_code)
    except (ValueError, CnsError) as error:
        refuse(error, EXIT_FAILED)
