"""The ranking formulas. `light.py` defines their input and output."""
