// As src/pch/standard.h, for the tests.
#include <doctest/doctest.h>

#include <random>

#include "../../src/pch/standard.h"
