"""The ranking formulas. `light.py` says what each of them is given."""
