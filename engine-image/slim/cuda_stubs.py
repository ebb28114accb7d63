"""Stand-ins for the NVIDIA libraries that PyPI's torch links to, so that it runs on a machine that has none.

Place in the flow: after the CPU environment was installed (virtual environment or image), before anything
imports torch. PyPI's torch is the CUDA build; its shared libraries name libcublas, libcudnn, libnccl and
others as needed, and the loader wants them although a CPU engine never calls them. This script reads from
torch's own libraries which symbols of which library they expect and links one small library for each, beside
torch's. Nothing of NVIDIA's is copied.

A stub function says "no device": `__cuda*` (called by static initialisers) return 0, `*String` and `*Name`
return a text, everything else returns 100 (cudaErrorNoDevice). Then `torch.cuda.is_available()` is False.

usage: cuda_stubs.py [SITE_PACKAGES]   (default: this interpreter's; needs readelf, as, ld: Debian's binutils)
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

NVIDIA = re.compile(
    r"lib(cu|nv|nccl)|(cu|nv|nccl)[A-Za-z]"
)  # their libraries; their functions without a version
PROLOGUE = """.section .note.GNU-stack,"",@progbits
.section .rodata
text: .asciz "no CUDA device"
.bss
.balign 4096
buffer: .zero 65536
.text
"""


def tool(*command: str) -> str:
    """Run a binutils program and return its output; exits with a sentence when it is missing or fails."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit(f"cuda_stubs: {command[0]} is not installed: install binutils")
    except subprocess.CalledProcessError as error:
        sys.exit(f"cuda_stubs: {' '.join(command)}: {error.stderr}")


def needed(library: Path) -> list[str]:
    """The names of the libraries that `library` asks the loader for, in its order."""
    return re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-dW", str(library)))


def versions(library: Path) -> dict[str, str]:
    """Which library each symbol version that `library` refers to belongs to."""
    owner: dict[str, str] = {}
    file = ""
    for line in tool("readelf", "-VW", str(library)).splitlines():
        if match := re.search(r"Version: 1 +File: (\S+)", line):
            file = match[1]
        elif file and (match := re.search(r"Name: (\S+)", line)):
            owner[match[1]] = file
    return owner


def undefined(library: Path) -> dict[str, str]:
    """The symbols that `library` wants from others: name -> version ("" without one)."""
    found: dict[str, str] = {}
    for line in tool("readelf", "--dyn-syms", "-W", str(library)).splitlines():
        column = line.split()
        if len(column) >= 8 and column[6] == "UND" and column[4] == "GLOBAL":
            name, _, version = column[7].partition("@")
            found[name] = version.lstrip("@")
    return found


def wanted(libraries: Iterable[Path]) -> dict[str, dict[str, str]]:
    """For each NVIDIA library that torch needs: symbol -> version to define.

    A versioned symbol belongs to the library of its version. One of NVIDIA's without a version goes to the
    first unversioned library that its user needs: the loader looks there too.
    """
    stubs: dict[str, dict[str, str]] = defaultdict(dict)
    versioned: set[str] = set()
    plain: list[tuple[list[str], list[str]]] = []
    for library in libraries:
        owner, nvidia = versions(library), [name for name in needed(library) if NVIDIA.match(name)]
        for name in nvidia:
            stubs.setdefault(name, {})  # the loader wants the file even where no symbol of it is used
        versioned.update(owner.values())
        found = undefined(library)
        for symbol, version in found.items():
            if version and owner.get(version) in nvidia:
                stubs[owner[version]][symbol] = version
        plain.append((nvidia, [s for s, version in found.items() if not version and NVIDIA.match(s)]))
    for nvidia, names in plain:
        home = next((name for name in nvidia if name not in versioned), None)
        if home:
            stubs[home].update(dict.fromkeys(names, ""))
    return stubs


def body(symbol: str) -> str:
    """The one instruction before `ret` that makes the answer of a stub function."""
    if symbol.startswith("_Z"):
        return "lea buffer(%rip),%rax"
    if symbol.startswith("__cuda"):
        return "xor %eax,%eax"
    if symbol.endswith(("String", "Name")):
        return "lea text(%rip),%rax"
    return "mov $100,%eax"


def version_node(version: str, stub: dict[str, str]) -> str:
    """The entry of a linker version script that gives `version` to its symbols."""
    return f"{version} {{ global: {' '.join(f'{s};' for s in sorted(stub) if stub[s] == version)} }};\n"


def link(soname: str, stub: dict[str, str], target: Path) -> None:
    """Assemble and link one stub library to `target` (a new file: the old one may be shared with a cache)."""
    with tempfile.TemporaryDirectory() as work:
        source, output, script = Path(work, "s.s"), Path(work, "s.o"), Path(work, "s.map")
        functions = (f".globl {s}\n.type {s},@function\n{s}: {body(s)}\n ret\n" for s in sorted(stub))
        source.write_text(PROLOGUE + "".join(functions))
        tool("as", "-o", str(output), str(source))
        arguments = ["ld", "-shared", "-soname", soname, "-o", str(target)]
        if any(stub.values()):
            script.write_text("".join(version_node(v, stub) for v in sorted(set(stub.values()) - {""})))
            arguments += ["--version-script", str(script)]
        target.unlink(missing_ok=True)
        tool(*arguments, str(output))


def main() -> None:
    """Write the stubs that the torch below the given site-packages needs."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_path("purelib"), "torch", "lib")
    libraries = sorted(directory.glob("libtorch*.so")) + sorted(directory.glob("libc10*.so"))
    if not libraries:
        sys.exit(
            f"cuda_stubs: {directory} holds no torch libraries: give the site-packages directory of torch"
        )
    stubs = wanted(libraries)
    for soname, stub in stubs.items():
        link(soname, stub, directory / soname)
    sys.stdout.write(f"cuda_stubs: {len(stubs)} libraries, {sum(map(len, stubs.values()))} symbols\n")


if __name__ == "__main__":
    main()
