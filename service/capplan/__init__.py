"""capplan: which accelerators, how many, and in which layout, for a model, a precision and a throughput target."""

__version__ = "0.1.0"
