"""PoCL with a shorter header, which it reads again for each kernel that it builds."""

import importlib.util
import re
import shutil
from pathlib import Path

# They are half of the header, which takes nearly all of the 100 ms of a small kernel's build.
_UNUSED = re.compile(
    r"^\w+ [^(;\n]*\b(convert_|read_image|write_image|get_image|async_work_group)\w*\([^;\n]*\);\n"
    r"|^\w+ [^(;\n]*\bshuffle2?\([^;\n]*\);\n",
    re.MULTILINE,
)


def link_pocl(folder):
    """Link PyOpenCL's PoCL into a folder, without functions that no test uses.

    Return its library, for OCL_ICD_VENDORS, or None where PoCL is elsewhere.
    """
    installed = [_folder_of(name) for name in ("pyopencl", "pocl_binary_distribution")]
    header = Path(".libs/share/pocl/include/opencl-c.h")
    if installed[0] is None or installed[1] is None or not (installed[1] / header).is_file():
        return None
    libraries = list(installed[0].glob(".libs/libpocl-*.so"))
    if len(libraries) != 1:
        return None
    # The library looks for its data at a place relative to its own.
    library = folder / "pyopencl" / ".libs" / libraries[0].name
    library.parent.mkdir(parents=True)
    library.symlink_to(libraries[0])
    data = folder / installed[1].name
    shutil.copytree(installed[1], data, copy_function=lambda of, to: Path(to).symlink_to(of))
    text = (data / header).read_text(encoding="utf-8")
    (data / header).unlink()
    (data / header).write_text(_UNUSED.sub("", text), encoding="utf-8")
    return library


def _folder_of(package):
    found = importlib.util.find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent
