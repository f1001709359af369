"""Reads a parsed ``config.json`` into a :class:`~capplan.modeling.architecture.ModelArchitecture`."""

from capplan.modeling.config_reader.reader import read_config

__all__ = ["read_config"]
