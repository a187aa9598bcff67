"""Pages of the reference, made from the code: settings, metrics, API operations, events, commands."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import botocore.loaders
import botocore.model
import msgspec
import typer

from cns_cli.main import app
from cns_common.aws.protocol.names import ServiceName
from cns_common.configuration import settings
from cns_common.events.schema import EVENTS
from cns_common.metrics.catalogue import METRICS
from deploy.site.pages import ROOT

CONFORMANCE = ROOT / "build" / "conformance.md"
OPERATIONS: Mapping[ServiceName, str] = {"sqs": "SQS, by CQS", "sns": "SNS, by CNS", "sts": "STS"}


def settings_page() -> str:
    rows = []
    texts = _field_texts(settings.Settings)
    for name, field in settings.Settings.model_fields.items():
        default = "" if field.default is None else _shown(field.default)
        rows.append((f"`CNS_{name.upper()}`", default, texts.get(name, "")))
    return _page(
        "Settings",
        "Environment variables; [what they are for](../operations/reference.md#settings).",
        ("variable", "default", ""),
        rows,
    )


def metrics_page() -> str:
    rows = [(f"`{m.name}`", m.kind, ", ".join(f"`{label}`" for label in m.labels), m.help) for m in METRICS.values()]
    return _page(
        "Metrics",
        "On `/metrics`; [how to read them](../operations/monitoring.md#watching).",
        ("metric", "kind", "labels", ""),
        rows,
    )


def operations_page() -> str:
    """Every operation of AWS' model, with its members; all are implemented (a test says so)."""
    parts = ["# API operations\n\nParameters as at AWS; rules and tests are in [conformance](conformance.md).\n"]
    loader = botocore.loaders.create_loader()
    for service, title in OPERATIONS.items():
        model = botocore.model.ServiceModel(loader.load_service_model(service, "service-2"))
        rows = []
        for name in model.operation_names:
            shape = model.operation_model(name).input_shape
            required = [] if shape is None else shape.required_members
            members = [] if shape is None else shape.members
            rows.append((f"`{name}`", ", ".join(f"**{each}**" if each in required else each for each in members)))
        parts.append(f"## {title}\n\n{_table(('operation', 'parameters (bold: required)'), rows)}")
    return "\n".join(parts)


def events_page() -> str:
    parts = ["# Events\n\nJSON lines in segments; [how they are read](../pipeline.md).\n"]
    for event in EVENTS:
        info = msgspec.inspect.type_info(event)
        assert isinstance(info, msgspec.inspect.StructType)
        rows = [(f"`{field.encode_name}`", _type_name(event, field.name)) for field in info.fields]
        parts.append(f"## {info.tag}\n\n{_table(('field', 'type'), rows)}")
    return "\n".join(parts)


def commands_page() -> str:
    parts = ["# Commands\n\nEach has `--help`; [exit codes](../operations/reference.md#exit-codes).\n"]
    root = typer.main.get_command(app)
    for words, command in _commands(("cns",), root):
        if hasattr(command, "list_commands"):
            continue
        rows = [
            _parameter(each) for each in command.params if not getattr(each, "hidden", False) and each.name != "help"
        ]
        text = inspect.cleandoc(command.help or "")
        parts.append(f"## {' '.join(words)}\n\n{text}\n\n{_table(('parameter', ''), rows) if rows else ''}")
    return "\n".join(parts)


def conformance_page() -> str:
    """The page of the last `make test-all`: only a run of all tests knows which of them show a rule."""
    if CONFORMANCE.exists():
        return CONFORMANCE.read_text()
    return "# Conformance\n\n`make test-all` writes this page, `build/conformance.md`, before `make site` takes it.\n"


REFERENCE: Mapping[str, Callable[[], str]] = {
    "settings": settings_page,
    "metrics": metrics_page,
    "operations": operations_page,
    "events": events_page,
    "commands": commands_page,
    "conformance": conformance_page,
}


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    if hasattr(command, "list_commands"):
        context = command.context_class(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands((*words, name), found)


def _parameter(parameter: Any) -> tuple[str, str]:
    text = getattr(parameter, "help", None) or ""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`", text
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)), text


def _field_texts(model: type) -> dict[str, str]:
    """The strings below the fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, following in zip(tree.body, tree.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            texts[field.target.id] = " ".join(str(following.value.value).split())
    return texts


def _type_name(event: type, field: str) -> str:
    for each in event.__mro__:
        found = inspect.get_annotations(each).get(field)
        if found is not None:
            return f"`{found}`"
    return ""


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`" if value else ""
    return f"`{value}`" if value != "" else ""


def _page(title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"# {title}\n\n{text}\n\n{_table(head, rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
