"""What Tidelore promises about speed, memory and cost, measured: run with `python -m benchmarks` or `make bench`.

Every bound is a ratio or a count taken in one run on one machine, so that it means the same on any machine.
Nothing here is a test, and nothing in the product imports it.
"""
