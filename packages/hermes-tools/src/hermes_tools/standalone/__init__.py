"""Modules of the standard library alone: some are also run as programs of their own (see `child_work`).
`html_text` needs the extra `web` besides.

What is here may block and may take long. The event loop meets it only through `hermes_tools.files`, which
hands single calls to aiofiles, and through `hermes_tools.child_work`, which starts a process to be killed.
"""

from __future__ import annotations

__all__: list[str] = []
