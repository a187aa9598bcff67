"""Models for FastAPI are made of the answers in `cns.rest`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from cns.rest.models import Answer
from cns_server.rest.answer_models import model_of


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
