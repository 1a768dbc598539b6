"""A metric for many callers: concurrent calls in batches.

::

    window   BatchWindow: calls that arrive together -> one call; BatchedMetric: a metric so called
"""
