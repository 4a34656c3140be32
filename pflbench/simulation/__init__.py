"""One run: the server, its clients, rounds and evaluation."""
