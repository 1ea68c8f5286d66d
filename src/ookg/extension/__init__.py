"""A model together with what is new to it: an object that stays, to be asked many times while more comes in.

Read it in this order: `ookg.graph.grown` (the known graph with given triples), `groups` (new entities that are prepared
together), `state` (all that a question reads), `vectors`, `lookup`, `reasons`, then `questions` and `claims`, and
`extended`, which puts one state in the place of another.
"""
