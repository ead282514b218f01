"""Composition of the service: which jobs there are for a configuration, and the loop around them; decides nothing."""
