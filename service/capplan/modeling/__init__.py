"""What a model is: from a config.json to exact parameters, bytes, cache and FLOP."""
