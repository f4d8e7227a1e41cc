"""What language people write in, and our own messages in theirs. Pure: what it needs is read once from the
package.
"""

from indai.language.catalogue import say
from indai.language.detection import Detected, detect
from indai.language.formats import moment, money, number

__all__ = ["Detected", "detect", "moment", "money", "number", "say"]
