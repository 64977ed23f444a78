// Checks that the table of operations lists the files of its folder, and that
// records are complete.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "exec/operations/operation.h"

namespace shardc::exec {
namespace {

namespace fs = std::filesystem;

// Concepts that hold if a record can be initialised without a formula of its
// bytes, without a program, and with both. Only the last one must hold.
template <class T>
concept NeedsNoBytes = requires {
  T{.name = "made up", .summary = "", .supports = {}, .run = kRing.run};
};
template <class T>
concept NeedsNoRun = requires {
  T{.name = "made up", .summary = "", .supports = {}, .bytes = kRing.bytes};
};
template <class T>
concept TakesBoth = requires {
  T{.name = "made up",
    .summary = "",
    .supports = {},
    .bytes = kRing.bytes,
    .run = kRing.run};
};
static_assert(TakesBoth<Operation>);
static_assert(!NeedsNoBytes<Operation> && !NeedsNoRun<Operation>);
static_assert(!std::is_default_constructible_v<Operation>);

constexpr std::array kIdentifiers = {
#define SHARDC_OPERATION(name) #name,
#include "exec/operations/table.h"
#undef SHARDC_OPERATION
};

TEST_CASE("the table holds every record of its folder, once") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  const fs::path folder =
      fs::path(root == nullptr ? "." : root) / "src/exec/operations";
  const std::string words = "constinit const Operation ";
  std::set<std::string> defined;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CAPTURE(entry.path().string());
    for (size_t at = text.find(words); at != std::string::npos;
         at = text.find(words, at + 1)) {
      const size_t begin = at + words.size();
      const std::string name =
          text.substr(begin, text.find(' ', begin) - begin);
      CAPTURE(name);
      CHECK(defined.insert(name).second);
    }
  }
  const std::set<std::string> listed(kIdentifiers.begin(), kIdentifiers.end());
  CHECK(listed.size() == kIdentifiers.size());
  CHECK(listed == defined);
  CHECK(Operations().size() == kIdentifiers.size());
}

// Returns the name of the operation with this name, or "none" if there is none.
std::string_view FoundName(std::string_view name) {
  const Operation* const found = FindOperation(name);
  return found == nullptr ? "none" : found->name;
}

TEST_CASE("a record's properties agree with each other") {
  std::set<std::string_view> names;
  for (const Operation* operation : Operations()) {
    CAPTURE(operation->name);
    CHECK(names.insert(operation->name).second);
    CHECK(FoundName(operation->name) == operation->name);
    CHECK(!operation->summary.empty());
    const Supports& s = operation->supports;
    for (const std::string_view what :
         {s.batch, s.query_length, s.key_length, s.heads, s.dim}) {
      CHECK(!what.empty());
    }
    CHECK(!(operation->pages && operation->latent));
    CHECK(operation->IsPaged() == s.batch.starts_with("pages"));
    CHECK(operation->IsPaged() == operation->Takes(Setting::kPageSize));
    CHECK(operation->Takes(Input::kBlockTable) ==
          operation->Takes(Setting::kBlockMask));
    if (operation->equal_length_axes) CHECK(!operation->decode_only);
    if (operation->trace == StateTrace::kPages) CHECK(operation->pages);
  }
  CHECK(FoundName("") == "none");
  CHECK(FoundName("rin") == "none");
}

TEST_CASE("readers of settings know what each operation takes") {
  const auto known = KnownOperations();
  REQUIRE(known.size() == Operations().size());
  for (size_t i = 0; i < known.size(); ++i) {
    const Operation& operation = *Operations()[i];
    CHECK(known[i].name == operation.name);
    for (size_t s = 0; s < kSettingNames.size(); ++s) {
      const auto setting = static_cast<Setting>(s);
      CAPTURE(kSettingNames[s]);
      CHECK(known[i].settings.Has(setting) == operation.Takes(setting));
      const auto takers = TakenBy(setting, known);
      CHECK(!takers.empty());
      CHECK((std::find(takers.begin(), takers.end(), operation.name) !=
             takers.end()) == operation.Takes(setting));
    }
  }
}

}  // namespace
}  // namespace shardc::exec
