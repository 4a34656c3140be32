"""A table as LaTeX, Markdown and CSV."""
