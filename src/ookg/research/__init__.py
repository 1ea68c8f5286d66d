"""What only researchers need: the paper's baselines and the reproduction of its tables."""
