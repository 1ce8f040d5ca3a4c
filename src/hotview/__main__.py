"""``python -m hotview``, the command line; torchrun starts it this way."""

from hotview.cli import main

if __name__ == "__main__":
    main()
