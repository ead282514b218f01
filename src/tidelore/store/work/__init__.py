"""Stores leases, runs, service records, feedback events, planned answers and tracked pull requests.

These rows coordinate processes and record what was done; the mirrored conversations are in `mirror`.
"""
