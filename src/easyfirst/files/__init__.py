"""The one file format of easyfirst: named arrays, a JSON object and a digest over all of it.

A file is a valid safetensors file: eight bytes with the length of a JSON header, the header, the
arrays' bytes. The header's metadata carry five texts:

- `format` and `version` say what this is,
- `kind` says what the contents mean (to the module that wrote them),
- `facts` is a JSON object (`FileData.state`),
- `digest` is the BLAKE2b-256 of the whole file, as it reads with 64 zeros for the digest itself.

The digest finds damage, not forgery: anybody can compute it. So a reader trusts nothing. Lengths,
names, types and shapes are checked against the size of the file before anything larger than the
header is held in memory, and the caller has to check what the object and the arrays say. That is
why files are not left to the safetensors package, which knows no digest and allows a hundred
times the header; what is written here, it can read.
"""

from easyfirst.files.reading import FileData, read
from easyfirst.files.texts import texts_from_array, texts_to_array
from easyfirst.files.writing import write

__all__ = ["FileData", "read", "texts_from_array", "texts_to_array", "write"]
