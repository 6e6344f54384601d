"""The ranking formulas. `ranking.py` defines their input and output."""
