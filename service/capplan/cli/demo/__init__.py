"""The demonstration: the service end to end on this machine, with a temporary database."""
