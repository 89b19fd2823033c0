"""The clock that times runs, and the device's own clock that decides how long they take."""
