#include "fuzz/checks.h"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

namespace shardc::fuzz {
namespace {

void Fail(const doctest::AssertData& data) {
  if (!data.m_failed) return;
  std::fprintf(stderr, "%s:%d: %s\n  %s\n", data.m_file, data.m_line,
               data.m_expr, data.m_decomp.c_str());
  std::abort();
}

}  // namespace

void ArmChecks() {
  static doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler(Fail);
}

}  // namespace shardc::fuzz
