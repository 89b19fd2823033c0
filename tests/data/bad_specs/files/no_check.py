def verify(run):
    return None
