"""Ask compilers which flags they know, and leave out of a space those that they refuse."""
