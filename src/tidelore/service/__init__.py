"""What is going on: the read model of status, shared by every face."""
