"""Small files that are replaced as a whole: a killed process leaves the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from indai.protocol.errors import Reason, Unavailable


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of the file, durably; raises Unavailable(STORAGE_FULL)."""
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise Unavailable(
            Reason.STORAGE_FULL,
            f"The file {path} cannot be written: {error.strerror}.",
            hint="make room, or check the directory and its permissions",
        ) from error
