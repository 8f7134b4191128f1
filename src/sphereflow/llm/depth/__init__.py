"""What depth does to the tokens of a language model: one layer iterated, and inverse temperatures of its heads."""
