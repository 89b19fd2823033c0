"""What a GPU says of itself: clocks, temperature, power; and the energy of a kernel."""
