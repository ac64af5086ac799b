"""A server that is no replica set: everything by polling, and transactions refused with a sentence."""
