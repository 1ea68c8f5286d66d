"""The hot loops: a plain PyTorch reference that specifies them, and fast ones that are tested against it."""
