"""`ctxruntime run`: a program as it is, with hops, mirroring and, if asked for, its spans in a file.

finding.py    which program is meant
executing.py  run it as `python` would
hosts.py      the integrations of the hosts that are installed
command.py    the command
"""
