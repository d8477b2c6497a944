"""Model files: a declared document and plain arrays, checked as a whole before anything is made of them.

``files`` replaces and reads files, ``archive`` has the bytes of one, ``values`` and ``parts`` say how objects are written in the
document, and ``old_formats`` reads what earlier versions wrote. Nothing is pickled, so opening a file never runs code from it.
"""

from skinnytrees.model.storage.document import FORMAT, Saved, read, refusing, write
from skinnytrees.model.storage.files import File

__all__ = ["FORMAT", "File", "Saved", "read", "refusing", "write"]
