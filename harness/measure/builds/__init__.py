"""Build programs: the queue of compilations, what compilers say, and the code that they leave."""
