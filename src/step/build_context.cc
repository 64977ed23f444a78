#include "step/build_context.h"

#include "source/index.h"

namespace shardc::step {

ValueId BuildContext::Value(const Line& line, size_t i) const {
  if (i >= line.arguments.size()) return kNoValue;
  return variables[AsIndex(line.arguments[i].variables[0])];
}

ValueId BuildContext::RoleValue(const Line& line, size_t i) {
  if (i >= line.arguments.size()) return kNoValue;
  return parameters->Of(line.arguments[i].role, layer);
}

ValueId BuildContext::BiasOf(const Line& line, size_t i) {
  if (i >= line.arguments.size()) return kNoValue;
  return parameters->BiasOf(line.arguments[i].role, layer);
}

std::optional<double> BuildContext::Constant(const LineArgument& by) {
  return by.word.empty() ? by.number : reader->Constant(by.word);
}

void BuildContext::Fail(const Line& line, const std::string& message) {
  findings.Add(code::kSchema, line.described->place, message);
  failed = true;
}

}  // namespace shardc::step
