"""Runs in the rows and columns of tables and the lines of figures."""
