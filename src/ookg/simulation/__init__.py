"""Known entities made new again: what a vector for a new entity is worth in this graph, and which settings are best."""
