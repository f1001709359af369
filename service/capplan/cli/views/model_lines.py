"""Descriptions of models as lines of JSON: one flat object each, whole numbers as numbers."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from capplan.cli.failures import describe
from capplan.errors import CapplanError
from capplan.v1 import planner_service_pb2

_WIDE = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


def model_line(asked: str, answer: planner_service_pb2.DescribeModelResponse) -> str:
    """The description's fields and the catalogue's revision in one object, and under ``model`` what was asked for."""
    values = json_format.MessageToDict(
        answer.model, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    fields = _with_numbers(values, answer.model.DESCRIPTOR)
    return json.dumps({"model": asked, **fields, "catalog_revision": answer.catalog_revision})


def error_line(asked: str, error: CapplanError) -> str:
    """A refusal: the fault in words, what was asked for, and the error's stable reason."""
    return json.dumps({"error": "; ".join(describe(error)), "model": asked, "reason": error.reason})


def _with_numbers(values: dict[str, Any], descriptor: Descriptor) -> dict[str, Any]:
    """The values with 64-bit integers, which protobuf's JSON writes as strings, as numbers."""
    return {name: _value(value, descriptor.fields_by_name[name]) for name, value in values.items()}


def _value(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_value(item, field) for item in value]
    if field.message_type is not None:
        return _with_numbers(value, field.message_type)
    return int(value) if field.cpp_type in _WIDE else value
