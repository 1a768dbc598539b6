"""A metric for many callers: concurrent calls in batches, a server, and its client.

::

    window       BatchWindow: calls that arrive together -> one call; BatchedMetric: such a metric
    client       RemoteMetric, RemotePosh: a server's metric, used as if it were here
    app          create_app: a metric as an ASGI app, with endpoints for trainers
    gate         in front of it: key, bounds, counts
    connections  uvicorn, with bounds on clients that keep it waiting
    study_app    study_app: a packet's pages behind links, which store raters' answers
"""
