"""Other tools' trained models, in and out: one file a format."""

MODELS = ("transe", "rotate")  # what of other tools' models is read
