"""A metric for many callers: batches of concurrent calls, a server, and its client.

::

    window       BatchWindow: concurrent calls -> one call; BatchedMetric: a metric with one
    contract     what server and client agree on: fields of rows, records of scores
    client       RemoteMetric, RemotePosh: a server's metric, used like a local one
    app          create_app: a metric as an ASGI app, with endpoints for trainers
    bodies       its requests and replies
    request_limits  middleware in front of it: limits, counts; the server
    refusals     replies to requests without a result
    study_app    study_app: a packet's pages behind links, storing raters' answers
"""
