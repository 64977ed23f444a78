#include "families/description.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

namespace shardc::families {
namespace {

std::string Repeated(std::string_view part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part;
  return out;
}

// A form of nested or long expressions: `before`, then `repeated` many times,
// `middle`, and `closing` as many times.
struct Form {
  std::string_view before, repeated, middle, closing;
};
constexpr std::array<Form, 16> kForms = {{
    {"", "- ", "1", ""},
    {"", "-", "1", ""},
    {"", "not ", "1", ""},
    {"", "(", "1", ")"},
    {"", "[", "", "]"},
    {"", "max(", "1", ")"},
    {"", "a[", "0", "]"},
    {"", "1 if 1 else ", "1", ""},
    {"a", ".b", "", ""},
    {"a", "[0]", "", ""},
    {"1", " + 1", "", ""},
    {"1", " // 1", "", ""},
    {"a", " ?? a", "", ""},
    {"1", " and 1", "", ""},
    {"1", " < 1", "", ""},
    {"[", "1,", "1", ""},
}};

std::string Written(const Form& form, int times) {
  return std::string(form.before) + Repeated(form.repeated, times) +
         std::string(form.middle) + Repeated(form.closing, times);
}

TEST_CASE("expressions: what is deep or long is refused as such") {
  for (const Form& form : kForms) {
    CAPTURE(Written(form, 1));
    for (const int times : {1001, 300000}) {
      Findings findings;
      CHECK_FALSE(ParseExpression(Written(form, times), {}, findings));
      REQUIRE(findings.all().size() == 1);
      CHECK(findings.all()[0].code->name == code::kLimit.name);
      CHECK(findings.all()[0].message.size() < 200);
    }
  }
}

TEST_CASE("expressions: as deep and as long as people write them") {
  for (const Form& form : kForms) {
    const std::string text = Written(form, 40);
    CAPTURE(text);
    Findings findings;
    const auto read = ParseExpression(text, {}, findings);
    // A list that is not closed is an error at any length.
    const bool open = form.before == "[";
    CHECK(read.has_value() == !open);
    if (open) CHECK(findings.all()[0].code->name == code::kSchema.name);
  }
}

}  // namespace
}  // namespace shardc::families
