"""The loop over surfaces: which lists, children and accounts a command reads, verifies or compares, and its report."""
