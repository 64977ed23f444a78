// As src/pch/project.h, for the tests.
#include <doctest/doctest.h>

#include <random>

#include "../../src/pch/project.h"
