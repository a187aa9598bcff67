"""Makes models of the answers in `cns.rest`, by which FastAPI describes and writes them."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, Field, create_model

from cns_server.rest.models import Wire


@cache
def model_of(answer: type[msgspec.Struct]) -> type[BaseModel]:
    """The model with the name, the text and the members of an answer."""
    members: Any = {one.name: _member(one) for one in fields(answer)}
    return create_model(answer.__name__, __base__=Wire, __doc__=answer.__doc__, **members)


def _member(info: FieldInfo) -> tuple[Any, Any]:
    type_, *metas = get_args(info.type) if get_origin(info.type) is Annotated else (info.type,)
    meta = metas[0] if metas else msgspec.Meta()
    default = info.default if info.default_factory is NODEFAULT else info.default_factory()
    return _type(type_), Field(
        default=... if default is NODEFAULT else default,
        description=meta.description,
        json_schema_extra=meta.extra_json_schema,
    )


def _type(type_: Any) -> Any:
    """The type with models in the place of answers."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return model_of(type_)
    origin, arguments = get_origin(type_), tuple(_type(one) for one in get_args(type_))
    if origin in (Union, UnionType):
        return Union[arguments]  # noqa: UP007  # of types that only the run knows
    return origin[arguments] if origin is not None else type_
