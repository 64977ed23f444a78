#include <algorithm>
#include <charconv>
#include <vector>

#include "lint/rules/lint.h"
#include "source/audit_code.h"
#include "source/stage_code.h"

namespace shardc {
namespace {

std::vector<const Code*> MakeCodes() {
  std::vector<const Code*> out(ReadingCodes().begin(), ReadingCodes().end());
  for (const Lint* lint : AllLints()) out.push_back(&lint->code);
  out.insert(out.end(), StageCodes().begin(), StageCodes().end());
  out.insert(out.end(), AuditCodes().begin(), AuditCodes().end());
  // The numbers of the stage codes are between those of the lints, so all codes
  // are sorted.
  std::stable_sort(out.begin(), out.end(), [](const Code* a, const Code* b) {
    return a->number < b->number;
  });
  return out;
}

}  // namespace

std::span<const Code* const> AllCodes() {
  static const std::vector<const Code*> codes = MakeCodes();
  return codes;
}

const Code* FindCode(std::string_view text) {
  int number = -1;
  std::string_view digits = text;
  if (digits.starts_with("SHD") || digits.starts_with("shd")) {
    digits.remove_prefix(3);
  }
  if (digits.size() == 3) {
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, number);
    if (error != std::errc() || at != end) number = -1;
  }
  for (const Code* code : AllCodes()) {
    if (code->number == number || code->name == text) return code;
  }
  return nullptr;
}

const Lint* FindLint(const Code& code) {
  for (const Lint* lint : AllLints()) {
    if (&lint->code == &code) return lint;
  }
  return nullptr;
}

}  // namespace shardc
