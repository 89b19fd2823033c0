int main(void) { return TILE; }
