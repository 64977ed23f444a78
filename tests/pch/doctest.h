// As src/pch/standard.h, for the tests.
#include <random>

#include "../../src/pch/standard.h"
#include "../printing.h"
