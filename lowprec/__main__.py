"""`python -m lowprec`: the command line, as `lowprec` is."""

from lowprec.cli.main import main

if __name__ == "__main__":
    main()
