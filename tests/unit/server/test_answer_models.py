"""Models for FastAPI are made of the answers in `cns.rest`, which the client reads, too."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Annotated

from msgspec import Meta, Struct, field

from cns.rest.models import Answer
from cns_server.rest import answer_models
from cns_server.rest.answer_models import model_of
from cns_server.rest.models import Wire


class Inner(Answer, frozen=True):
    in_it: int


class Outer(Answer, frozen=True):
    """Words."""

    kind: Annotated[str, Meta(description="Which.", extra_json_schema={"enum": ["a", "b"]})]
    inner: Inner | None
    many: list[Inner] = field(default_factory=list)
    sent_at: int | None = None


def test_a_model_has_the_members_of_the_answer() -> None:
    schema = model_of(Outer).model_json_schema()
    inner = {"$ref": "#/$defs/Inner"}
    assert schema["description"] == "Words."
    assert schema["required"] == ["kind", "inner"]
    assert schema["properties"] == {
        "kind": {"title": "Kind", "type": "string", "description": "Which.", "enum": ["a", "b"]},
        "inner": {"anyOf": [inner, {"type": "null"}]},
        "many": {"title": "Many", "type": "array", "items": inner, "default": []},
        "sentAt": {"title": "Sentat", "anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    }
    assert schema["$defs"]["Inner"]["properties"] == {"inIt": {"title": "Init", "type": "integer"}}


def test_a_model_writes_the_wire_names() -> None:
    model = model_of(Outer)
    assert model is model_of(Outer)
    written = model.model_validate(Outer(kind="a", inner=Inner(1)), from_attributes=True).model_dump(by_alias=True)
    assert written == {"kind": "a", "inner": {"inIt": 1}, "many": [], "sentAt": None}


def subclasses(base: type) -> Iterator[type]:
    direct: list[type] = base.__subclasses__()
    for one in direct:
        yield one
        yield from subclasses(one)


def test_an_answer_has_one_class_for_server_and_client() -> None:
    for module in ("cns.client", "cns_server.rest.app"):
        import_module(module)
    answers = {one.__name__ for one in subclasses(Answer) if one.__module__.startswith("cns.rest.")}
    bodies = {one.__name__ for one in subclasses(Wire) if one.__module__ != answer_models.__name__}
    assert len(answers) > 40
    assert len(bodies) > 20
    assert not answers & bodies
    assert not [one for one in subclasses(Struct) if one.__module__.startswith("cns.client.")]
