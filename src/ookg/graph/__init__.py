"""Triples, labels and what is counted on them."""
