"""Rules about the tree that no linter knows; `make lint` holds the product against them."""
