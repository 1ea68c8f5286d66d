"""The graph over HTTP: `ookg serve`. Only the command line imports this folder.

Read it in this order: `settings`, `service` (what a process of the server holds), `asking` (questions that wait are
answered in one pass), `routes` and `app`; then what guards it: `gate`, `limits`, `keys` and `problems`; and `server`,
which runs it.
"""
