"""Ready-made integrations of ctxruntime, one package per host.

``ctxruntime_integrations.hermes`` serves Hermes, and so on. Importing this package imports no host, and
importing an integration does not need its host to be installed.
"""
