"""Other tools' trained models, in and out: one file a format."""
