"""Runs put together from the parts: data, noise, network, optimizer, measurements."""
