"""Where the runs of a sweep are done: in local processes, or on a Ray cluster."""
