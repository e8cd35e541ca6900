"""`python -m kappasharp` is the command line, where its script is not on the path."""

from kappasharp.cli.main import main

if __name__ == "__main__":
    main(prog_name="kappasharp")
