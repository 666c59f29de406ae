"""Envoy's messages of external processing, as far as an endpoint picker says and reads them.

By name, number and type as in envoy/service/ext_proc/v3/external_processor.proto and envoy/config/core/v3/base.proto (Envoy 1.40). Generated
modules of all of Envoy's API ask for a later protobuf than Pulumi's SDK allows. What is not listed stays unread.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

_PACKAGE = "headway.ext_proc"
_KINDS = {"bytes": 12, "string": 9, "bool": 8, "int32": 5}
_OPTIONAL, _REPEATED, _MESSAGE = 1, 3, 11
_STRUCT = ".google.protobuf.Struct"
_FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "HeaderValue": (("key", 1, "string"), ("value", 2, "string"), ("raw_value", 3, "bytes")),
    "HttpHeaders": (("end_of_stream", 3, "bool"),),
    "HttpBody": (("body", 1, "bytes"), ("end_of_stream", 2, "bool")),
    "HttpTrailers": (),
    "AttributesEntry": (("key", 1, "string"), ("value", 2, _STRUCT)),
    "ProcessingRequest": (
        ("request_headers", 2, "HttpHeaders"),
        ("request_body", 4, "HttpBody"),
        ("response_trailers", 7, "HttpTrailers"),
        ("attributes", 9, "*AttributesEntry"),
    ),
    "HeaderValueOption": (("header", 1, "HeaderValue"), ("append_action", 3, "int32")),
    "HeaderMutation": (("set_headers", 1, "*HeaderValueOption"),),
    "CommonResponse": (("header_mutation", 2, "HeaderMutation"),),
    "HeadersResponse": (("response", 1, "CommonResponse"),),
    "BodyResponse": (("response", 1, "CommonResponse"),),
    "TrailersResponse": (),
    "ProcessingResponse": (
        ("request_headers", 1, "HeadersResponse"),
        ("request_body", 3, "BodyResponse"),
        ("response_trailers", 6, "TrailersResponse"),
    ),
}
"""Name of each message -> its fields: name, number, kind; `*` if repeated. Enumerations are numbers on the wire."""


def _made() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="headway_ext_proc.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            made = message.field.add(name=field, number=number, label=_REPEATED if kind[0] == "*" else _OPTIONAL)
            made.type = _KINDS.get(kind, _MESSAGE)  # pyright: ignore[reportAttributeAccessIssue]
            if kind not in _KINDS:
                made.type_name = kind if kind[0] == "." else f".{_PACKAGE}.{kind.lstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


_MESSAGES = _made()
ProcessingRequest: Any = _MESSAGES["ProcessingRequest"]
ProcessingResponse: Any = _MESSAGES["ProcessingResponse"]
