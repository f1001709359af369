"""The contract `capplan.v1` as Python code, generated from `proto/capplan/v1` by `make proto`."""
