"""Diffeomorphisms by a schedule: gradient maps, permutations of cells, and the score of the map that was made."""
