"""``python -m hotview``, which torchrun starts."""

from hotview.cli import main

if __name__ == "__main__":
    main()
