"""A trial of a kernel or program: verify, sample, verify again; and which times are doubtful."""
