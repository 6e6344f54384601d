"""The pages, one module for each topic."""
