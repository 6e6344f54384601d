"""Text in any language: normalisation of input, terms for the keyword index."""
