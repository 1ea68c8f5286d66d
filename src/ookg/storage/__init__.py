"""Model directories: reading and writing them."""
