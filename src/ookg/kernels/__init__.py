"""The hot loops, compiled for CPU and GPU; each is tested against a plain PyTorch reference where it is used."""
