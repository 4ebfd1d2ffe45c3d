"""Imports gradio without its stub files (.pyi), which take half of the time of its import.

Whenever a class of a component is defined, gradio parses the source of the class and writes a stub
file next to this source. Only editors read these files.
"""

import inspect


def import_gradio() -> None:
    """Import gradio, which then writes no stub file for its own and later components.

    During the import, `inspect.getfile` finds no file for a component, so gradio skips the stub.
    """
    getfile = inspect.getfile

    def find_file(item: object) -> str:
        if type(item).__name__ == "ComponentMeta":
            raise OSError("a component")
        return getfile(item)

    inspect.getfile = find_file
    try:
        from gradio import component_meta
    finally:
        inspect.getfile = getfile
    component_meta.create_or_modify_pyi = lambda *_: None


import_gradio()
