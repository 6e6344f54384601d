"""Ways to break the product, each with the tests that must notice; `make mutants` tries them."""
