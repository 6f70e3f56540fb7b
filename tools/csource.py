"""The C sources of the project, and their text without comments."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ('src', 'fuzz', 'bench', 'tests')

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'
                   r"'(?:\\.|[^'\\\n])*'", re.DOTALL)


def files(*suffixes):
    """Paths below the source folders, in order."""
    return [f for d in FOLDERS for f in sorted((ROOT / d).rglob('*'))
            if f.suffix in suffixes]


def code(text):
    """The text with comments and literals blanked, line for line."""
    def blank(m):
        return re.sub(r'[^\n]', ' ', m[0])
    return TOKEN.sub(blank, text)
