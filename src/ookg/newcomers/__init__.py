"""What is new: its neighbours (support), a candidate for each (estimator), their weights (reducer), the vector."""
