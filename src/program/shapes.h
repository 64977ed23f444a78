// Checks the shape that an op gives its results.
#ifndef SHARDC_PROGRAM_SHAPES_H_
#define SHARDC_PROGRAM_SHAPES_H_

#include <string>

#include "program/program.h"

namespace shardc::program {

// Returns why the shapes of an op's operands, results and bodies do not agree
// with each other or with its attributes; empty if they agree. The attributes
// must be in range, as the table of ops has them.
std::string ShapeFault(const Program& program, const Op& op);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_SHAPES_H_
