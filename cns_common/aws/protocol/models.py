"""The services as tables: operation name → readers of its input and writers of its result, compiled once at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cns_common.aws.protocol import json10, query, query_json, xml
from cns_common.aws.protocol.names import API_VERSIONS, XML_NAMESPACES, ServiceName
from cns_common.aws.protocol.shapes import Signature, read_signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationModel:
    """Readers and writers of one operation.

    An input is a dict by the model's member names that has only the members sent. A result is one, too; members that
    are None are omitted, in AWS JSON also empty lists and maps. Bytes are base64 on the wire. A timestamp in a result
    is milliseconds since the epoch.
    """

    name: str
    parse_json: json10.ParseJson
    parse_query: query.ParseQuery
    render_json: json10.RenderJson
    render_xml: xml.RenderXml
    render_query_json: query_json.RenderQueryJson


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceModel:
    name: ServiceName
    api_version: str
    xml_namespace: str
    operations: Mapping[str, OperationModel]


@cache
def load_service(name: ServiceName) -> ServiceModel:
    return ServiceModel(
        name=name,
        api_version=API_VERSIONS[name],
        xml_namespace=XML_NAMESPACES[name],
        operations={signature.name: compile_operation(name, signature) for signature in read_signatures(name)},
    )


def compile_operation(service: ServiceName, signature: Signature) -> OperationModel:
    return OperationModel(
        name=signature.name,
        parse_json=json10.compile_parse(signature.input),
        parse_query=query.compile_parse(signature.input),
        render_json=json10.compile_render(signature.output),
        render_xml=xml.compile_render(service, signature.name, signature.output),
        render_query_json=query_json.compile_render(signature.name, signature.output),
    )
