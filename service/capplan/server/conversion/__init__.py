"""Between the contract's messages and the core's values; one direction a module, no decisions."""
