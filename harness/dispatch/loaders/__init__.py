"""The modules that launch a dispatched kernel: copied as they are beside the code that chooses.

They import nothing of harness, which need not be there where they run.
"""
