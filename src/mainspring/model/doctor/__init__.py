"""The checks of `mainspring doctor`: facts about the server and the work, and the findings that follow. Pure."""
