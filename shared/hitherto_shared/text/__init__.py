"""Text in any language: normal form at the border, terms for the keyword index."""
