"""From remote lists to rows: which scopes a command reads, in what order, and what its run reports."""
