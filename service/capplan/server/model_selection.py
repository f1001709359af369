"""Finds the model a question is about: in the catalogue by name, or in the config the caller sent."""

from __future__ import annotations

from typing import Final

from capplan.catalog.snapshot import CatalogSnapshot
from capplan.errors import InvalidInputError
from capplan.modeling.architecture import ModelArchitecture
from capplan.modeling.config_reader import read_config
from capplan.modeling.parameters import total_parameters
from capplan.server.json_text import parse_json_object
from capplan.server.resource_names import parse_model
from capplan.v1 import model_pb2

MAX_PARAMETERS: Final = 10**15
"""Some hundred times the largest model that was published."""


def select_model(model: model_pb2.ModelSelection, snapshot: CatalogSnapshot) -> ModelArchitecture:
    """The architecture of the model a validated selection means.

    Raises:
        InvalidInputError: a text is no JSON object, a key has no possible value, or the model is larger than any.
        UnsupportedModelError: the config does not determine the model's size.
        NotFoundError: the catalogue has no such model.
    """
    if model.WhichOneof("source") == "name":
        return snapshot.resolve_model(parse_model(model.name, "model.name")).architecture
    config = parse_json_object(model.config_json, "model.config_json")
    quantization = None
    if model.quantization_config_json:
        quantization = parse_json_object(model.quantization_config_json, "model.quantization_config_json")
    architecture = read_config(config, name=model.display_name or None, quantization=quantization)
    parameters = total_parameters(architecture)
    if parameters > MAX_PARAMETERS:
        raise InvalidInputError.single(
            "model.config_json", f"describes {parameters:.3e} parameters; accepted: at most {MAX_PARAMETERS:.0e}"
        )
    return architecture
