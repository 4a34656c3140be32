"""Statistics of a report."""
