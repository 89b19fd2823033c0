"""The paper's eight stencils: each file has an expression and a reference."""
