def arguments(features, rng):
    return {}


def reference(:
    return {}
