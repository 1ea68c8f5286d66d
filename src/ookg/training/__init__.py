"""Training the tables: settings, sampling, loss, the trainer and the loop around it."""
