// Checks that a program can be run, beyond what factor analysis needs.
#ifndef SHARDC_PROGRAM_RUNNABLE_H_
#define SHARDC_PROGRAM_RUNNABLE_H_

#include <optional>
#include <string>

#include "program/program.h"

namespace shardc::program {

// Returns the bits of an integer dtype, negative if it is unsigned, or 0 for
// all other dtypes. BOOL is no integer here, and I64 has the 53 bits that a
// double holds exactly: a run computes modulo 2^53.
int IntegerBits(Dtype dtype);

// Returns whether nothing is known of an op: its primitive, or its function,
// has no definition here. A stand-in runs in its place, which depends on all
// elements of all operands.
bool IsOpaque(const Program& program, const Op& op);
// Returns the primitive or the function of which nothing is known, such as
// `fft`.
std::string OpaqueName(const Op& op);

// Returns what is malformed beyond shapes, with the line of the op: a manual
// region or a collective, or a window that leaves its operand. Returns nullopt
// if nothing is.
std::optional<std::string> FormFault(const Program& program);
// Returns why a program cannot be run: what FormFault() finds, or numbers that
// doubles do not represent. Returns nullopt if it can.
std::optional<std::string> RunFault(const Program& program);

// Returns about how many multiplications a run has.
double WorkOf(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_RUNNABLE_H_
