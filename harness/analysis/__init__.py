"""What measurements say: of each input, of failures, of what the times depend on."""
