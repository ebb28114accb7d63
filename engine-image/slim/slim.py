"""Takes out of an installed CPU environment what a running engine never reads.

Place in the flow: when the image's environment was installed, after the stand-ins of cuda_stubs.py. Removes
headers, tests, CUDA-only libraries of torch, and the debug information of vLLM's and llvmlite's libraries
(400 MB).

usage: slim.py [SITE_PACKAGES]   (default: this interpreter's; needs strip: Debian's binutils)
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

REMOVED = (
    "torch/include",
    "torch/share",
    "torch/test",
    "torch/bin/protoc*",
    "torch/bin/test_*",
    "torch/lib/libcaffe2_nvrtc.so",
    "torch/lib/libtorch_cuda_linalg.so",
    "numpy/*/tests",
    "networkx/**/tests",
    "sympy/**/tests",
    "pip",
    "pip-*.dist-info",
)
STRIPPED = ("vllm/**/*.so", "llvmlite/**/*.so")


def size(directory: Path) -> int:
    """Megabytes of all files below."""
    return sum(file.lstat().st_size for file in directory.rglob("*")) >> 20


def main() -> None:
    """Slim the given site-packages in place."""
    packages = Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_path("purelib"))
    before = size(packages)
    for pattern in REMOVED:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for pattern in STRIPPED:
        for library in packages.glob(pattern):
            subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    sys.stdout.write(f"slim: {before} MB -> {size(packages)} MB\n")


if __name__ == "__main__":
    main()
