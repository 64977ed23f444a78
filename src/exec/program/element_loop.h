// Runs a function of single elements over arrays. The function is chosen once,
// so that each function is a loop of its own.
#ifndef SHARDC_EXEC_PROGRAM_ELEMENT_LOOP_H_
#define SHARDC_EXEC_PROGRAM_ELEMENT_LOOP_H_

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "program/program.h"

namespace shardc::exec {

// Return the larger and the smaller of two numbers, or a NaN if one is a NaN.
inline double Larger(double a, double b) {
  return a != a || b != b ? std::numeric_limits<double>::quiet_NaN()
         : a < b          ? b
                          : a;
}
inline double Smaller(double a, double b) {
  return a != a || b != b ? std::numeric_limits<double>::quiet_NaN()
         : b < a          ? b
                          : a;
}

// An operand in the order of the result's elements.
struct ElementColumn {
  const double* data = nullptr;
  size_t step = 1;  // 0 if all elements of the result read the same one
};

struct ElementLoop {
  const program::Op& op;              // of kMap
  std::optional<Dtype> dtype;         // that of the first operand
  std::span<const ElementColumn> in;  // one for each operand
  std::vector<double>& out;
};

// Computes every element of `out`. Functions of integers compute modulo 2^64,
// and the caller keeps the bits that the result's dtype has. The function must
// be one that the program can run (RunFault).
void RunElementLoop(const ElementLoop& loop);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PROGRAM_ELEMENT_LOOP_H_
