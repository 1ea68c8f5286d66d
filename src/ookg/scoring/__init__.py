"""Questions, scores of answers, and ranks."""
