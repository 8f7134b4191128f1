"""The geometry of heads: separation, envelopes of the theory, regimes, assumptions, error bars."""
