"""A trained model: train one, load one, ask it."""
