"""Version 1 of the contract. Generated from protos/recollect/v1 by `make proto`."""
