"""Formulas by which candidates are put in order. `light.py` says what each of them is given."""
