"""The linear map of a recurrent mixer."""

from __future__ import annotations

from capplan.modeling.linear import Component, LinearMap, Shard


def recurrent_map(
    name: str,
    inputs: int,
    outputs: int,
    *,
    bias: bool = False,
    split_inputs: bool = False,
    units: int = 0,
    shard: Shard = Shard.TENSOR,
    quantizable: bool = True,
) -> LinearMap:
    """A linear map of ``Component.RECURRENT``."""
    return LinearMap(
        name,
        Component.RECURRENT,
        inputs,
        outputs,
        bias=bias,
        split_inputs=split_inputs,
        units=units,
        shard=shard,
        quantizable=quantizable,
    )
