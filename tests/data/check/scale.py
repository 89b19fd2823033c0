import numpy as np
def arguments(features, rng): return {"x": np.zeros(4, np.float32), "n": np.int32(1)}
def reference(arguments): return {"x": arguments["x"]}
