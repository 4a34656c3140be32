"""`python -m pflbench`."""

from pflbench.cli import main

if __name__ == "__main__":
    main()
