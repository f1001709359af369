"""Planning: which devices, how many, in which layout, and why."""
