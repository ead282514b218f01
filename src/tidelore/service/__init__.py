"""The service: a schedule of jobs, the loop that runs them, and the read models of its status."""
