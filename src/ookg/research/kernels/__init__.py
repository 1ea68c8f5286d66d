"""GPU kernels of the baselines."""
