"""Words that several parts of the product read alike: of time, of number, of opposites."""
