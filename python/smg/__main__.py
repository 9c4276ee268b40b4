"""`python -m smg`, the same as the command `smg`."""

from smg.cli import main

if __name__ == "__main__":
    main()
