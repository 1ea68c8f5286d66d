"""What the program needs from the machine: files, limits, progress, words for numbers."""
