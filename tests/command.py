"""The command line in this process."""

from click.testing import CliRunner, Result

from lowprec.cli.main import main


def lowprec(*words: object, **options: str | bytes) -> Result:
    """Return what a command of `lowprec` prints and its exit code."""
    return CliRunner().invoke(main, [str(word) for word in words], **options)
