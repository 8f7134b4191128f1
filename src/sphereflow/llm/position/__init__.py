"""What a place in the prompt is worth to a language model: key-value lists, and the influence of each position."""
