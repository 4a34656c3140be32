"""What is on disk: run folders, leases, plans and where a number comes from."""
