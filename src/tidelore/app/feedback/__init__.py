"""Composition of GitHub feedback: the only place where its parts are wired together; decides nothing."""
