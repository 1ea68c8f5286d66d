"""How good it is: link prediction, triplet classification, and claims judged by all evidence."""
