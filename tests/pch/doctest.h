// The precompiled headers of the tests: those of src/pch/standard.h and others
// that most tests include.
#include <random>

#include "../../src/pch/standard.h"
#include "../printing.h"
