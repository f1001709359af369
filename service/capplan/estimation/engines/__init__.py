"""Inference engines by version, one module each: what their settings mean, default to, and cost in memory."""
