// Writes small programs for tests, and prints the factors of their values.
#ifndef SHARDC_TESTS_PROGRAM_PROGRAMS_H_
#define SHARDC_TESTS_PROGRAM_PROGRAMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "program/ties.h"
#include "source/finding.h"

namespace shardc::program {

// The JSON text of a program, op by op. The line of each op is its number.
class ProgramText {
 public:
  ValueId Input(std::string_view kind, std::string_view name,
                const Shape& shape);
  // Adds an op with one result. `rest` has its attributes as JSON members.
  ValueId Op(std::string_view op, const std::vector<ValueId>& in,
             const Shape& shape, std::string_view rest = {});
  // Adds an op with the results of these shapes, and returns the first one.
  ValueId Ops(std::string_view op, const std::vector<ValueId>& in,
              const std::vector<Shape>& shapes, std::string_view rest = {});
  // A product of a value of rank 2 or more with a matrix.
  ValueId MatMul(ValueId left, ValueId right);
  // What is written between Begin() and End() is a body with these inputs, and
  // is returned as JSON.
  std::vector<ValueId> Begin(const std::vector<Shape>& shapes);
  std::string End(const std::vector<ValueId>& out);
  void SetPhase(std::string phase) { phase_ = std::move(phase); }

  std::string Json(const std::vector<ValueId>& outputs = {}) const;
  Program Read() const;  // fails the test if the text is refused

 private:
  struct Scope {
    std::string in, ops;
  };
  ValueId Value(const Shape& shape);

  std::vector<Shape> shapes_;
  std::string inputs_;
  std::vector<Scope> scopes_{1};
  std::string phase_;
  int line_ = 0;
};

// Returns the dimensions of values, with letters for factors in the order in
// which they occur: "[a8 b64] [c128]", and "(a2|b3)" for a sum.
std::string DimsText(const Ties& ties, const std::vector<ValueId>& values);

// Returns the parameters with their factors, one in a line.
std::string FactsText(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_TESTS_PROGRAM_PROGRAMS_H_
