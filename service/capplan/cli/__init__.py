"""The ``capplan`` command: an edge that asks the contract's questions and prints the answers."""
