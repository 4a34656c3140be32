"""Runs of a folder, read from its files."""
