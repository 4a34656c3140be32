"""Results to tables and figures; reads files only."""
