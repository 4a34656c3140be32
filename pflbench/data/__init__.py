"""Data sets and partitions: who has which samples."""
