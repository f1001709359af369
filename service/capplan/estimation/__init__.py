"""Estimation: what one replica of a model does on a device, in memory and in time."""
