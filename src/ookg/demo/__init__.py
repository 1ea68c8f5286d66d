"""A small film graph that ships with the package, and a tour of it."""
