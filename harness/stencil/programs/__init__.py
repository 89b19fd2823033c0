"""The paper's eight stencils, each a file as a person writes it: an expression and a reference."""
