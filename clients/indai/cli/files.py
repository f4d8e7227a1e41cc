"""Files that a person names: read whole, with errors that name the file."""

from __future__ import annotations

from pathlib import Path

from indai.cli.errors import file_error, wrong

MAX_TEXT = 1024 * 1024


def read_text(path: str) -> str:
    """A text file; raises InvalidInput."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise file_error(error) from None
    if len(data) > MAX_TEXT:
        raise wrong(f"{path} is larger than 1 MiB.", "check that it is the right file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise wrong(f"{path} is not a UTF-8 text.", "check that it is the right file") from None
