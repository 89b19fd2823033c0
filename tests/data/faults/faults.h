/* Included, so that editing an include can be tested. */
#define TWICE(value) (2.0f * (value))
