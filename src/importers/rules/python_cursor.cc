// Moves over the tokens of a Python file. After the first syntax error the
// position is the last token, kEnd, so that every loop of the parser ends.
#include "importers/rules/python_cursor.h"

#include <algorithm>
#include <utility>

namespace shardc::imports {
namespace {

constexpr int kDepthLimit = 150;

}  // namespace

void PyCursor::Refuse(std::string message) {
  if (good_) {
    const PyTokenAt& token = Now();
    findings_.Add(code::kPythonSyntax,
                  {source_, token.begin, std::max(token.end, token.begin)},
                  std::move(message));
  }
  good_ = false;
  at_ = tokens_.size() - 1;
}

bool PyCursor::Enter(std::string message) {
  if (++depth_ <= kDepthLimit) return true;
  Refuse(std::move(message));
  return false;
}

}  // namespace shardc::imports
