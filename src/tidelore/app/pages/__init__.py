"""What the web page reads and does beyond the use-cases of the command line."""
