"""What the program needs of the machine: files, limits, progress, words for numbers."""
