/* café */
__kernel void scale(int BLOCK) {}
