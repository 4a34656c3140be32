"""`python -m pflbench`."""

from pflbench.cli.main import main

if __name__ == "__main__":
    main()
