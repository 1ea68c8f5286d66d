"""A model together with what is new to it: an object that stays, to be asked many times while more comes in.

Read it in this order: `index` (the known graph by entity) and `overlay` (what given triples add to it), `groups` (new
entities that are prepared together), `state` (all that a question reads), `vectors`, `lookup`, `reasons`, then
`questions` and `claims`, and `model`, which puts one state in the place of another.
"""
