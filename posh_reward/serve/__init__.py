"""A metric for many callers: batches of concurrent calls, a server, and its client."""
