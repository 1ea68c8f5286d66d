"""How good it is: ranks, link prediction, thresholds, triplet classification."""
