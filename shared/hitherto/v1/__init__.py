"""Version 1 of the contract. Generated from protos/hitherto/v1 by `make proto`."""
