"""Use-cases that change something on the servers: replies, and the state of review threads."""
