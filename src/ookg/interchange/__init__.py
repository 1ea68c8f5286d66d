"""Other tools' trained models, in and out: one file per format."""

MODELS = ("transe", "rotate")  # the models of other tools that are read
