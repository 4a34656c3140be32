"""Papers whose tables pflbench can redraw, each in a folder of its own; only reports read them."""
