"""Lines of progress on standard output, which may be closed or full while a run goes on."""


def show(line: str) -> None:
    """Print a line. If nobody reads it any more, this is Ctrl-C: runs save what they have, and end.
    If it cannot be written, as to a full disk, runs go on without it.
    """
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise KeyboardInterrupt from None
    except OSError:
        pass
