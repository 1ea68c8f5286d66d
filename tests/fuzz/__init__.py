"""A fuzzer: damaged inputs of every kind for the command line, which must take them or refuse them in a line."""
