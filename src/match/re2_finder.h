// All patterns found in a name, by RE2.
#ifndef SHARDC_MATCH_RE2_FINDER_H_
#define SHARDC_MATCH_RE2_FINDER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace shardc {

// A pattern that compiled, and the separator it is written for.
struct CompiledPattern {
  std::shared_ptr<const re2::RE2> re;
  char separator = 0;
};

// `name` as a pattern written for `wanted` reads it; a copy goes to
// `scratch`. `separator` is the name's own; 0 is none.
std::string_view Convert(std::string_view name, char separator, char wanted,
                         std::string& scratch);

class Re2Finder {
 public:
  // For those of `patterns` that `numbers` has. Cheap: what they become
  // together is made when a name first asks. Never fails: what cannot be
  // compiled together is tried one by one.
  Re2Finder(std::span<const CompiledPattern> patterns,
            std::span<const uint32_t> numbers);
  ~Re2Finder();
  Re2Finder(Re2Finder&&) noexcept;
  Re2Finder& operator=(Re2Finder&&) noexcept;

  struct Scratch {
    std::string text;
    std::vector<int> hits;
  };
  // Adds their numbers to `out`, in no order. Any number of threads may, each
  // with its own scratch memory.
  void Find(std::string_view name, char separator, Scratch& scratch,
            std::vector<uint32_t>& out) const;

 private:
  struct Groups;
  std::unique_ptr<Groups> groups_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_RE2_FINDER_H_
