"""The script that becomes the guardian. It is run by its path, and never imported.

It detaches itself (the starter reaps only a short-lived parent, so that no zombie is left and the starter watches no
child), and loads `mainspring.mongod.guardian` without running the package's `__init__`: that would import pydantic and
pymongo, and cost every start a third of a second and every folder 50 MB.
"""

import os
import subprocess
import sys
import types


def detach() -> None:
    """Continue in a process that is no child of the starter."""
    if sys.platform == "win32":
        if "--detached" in sys.argv:
            sys.argv.remove("--detached")
            return
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        subprocess.Popen([sys.executable, "-I", "-S", *sys.argv, "--detached"], creationflags=flags)
        os._exit(0)
    elif os.fork() > 0:
        os._exit(0)


def declare_packages() -> None:
    """Register the two packages above the guardian by their paths alone."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be imported for this
    for name, place in (("mainspring", os.path.dirname(here)), ("mainspring.mongod", here)):  # noqa: PTH120
        package = types.ModuleType(name)
        package.__path__ = [place]
        sys.modules[name] = package


def run() -> None:
    """Become the guardian."""
    detach()
    declare_packages()
    from mainspring.mongod.guardian import main

    main(sys.argv[1:])


if __name__ == "__main__":
    run()
