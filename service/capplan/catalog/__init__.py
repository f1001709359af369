"""The catalogue: accelerators, MIG boards, prices and model profiles in SQL, with an immutable view of them."""
