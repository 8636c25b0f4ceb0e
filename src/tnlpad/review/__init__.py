"""Review labels in the browser: a server on this machine, whose decisions survive a kill at any moment."""
