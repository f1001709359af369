"""Importers of benchmark result files: one parser per format, and one way for what they read to become measurements."""
