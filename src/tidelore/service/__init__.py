"""What is to be done again and again, by whom, and how it stands: the loop and the read model of status."""
