// Finds which of many literal texts occur in a name.
#ifndef SHARDC_MATCH_LITERAL_FINDER_H_
#define SHARDC_MATCH_LITERAL_FINDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shardc {

class LiteralFinder {
 public:
  // `literals` must be distinct and must not contain an empty text.
  explicit LiteralFinder(std::span<const std::string> literals);

  // Appends to `out` the indices of the literals that occur in `text`. A
  // literal that occurs twice is appended twice.
  void Find(std::string_view text, std::vector<uint32_t>& out) const;

 private:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNoLiteral = UINT32_MAX;
  struct Node {
    uint32_t literal = kNoLiteral;  // The index of the literal that ends here.
    // The node of the longest proper suffix of the text.
    uint32_t shorter = kRoot;
    // The node of the longest proper suffix that is a literal.
    uint32_t ending = kRoot;
  };

  static uint64_t Edge(uint32_t from, char byte) {
    return uint64_t{from} << 8 | static_cast<unsigned char>(byte);
  }
  uint32_t Next(uint32_t from, char byte) const;

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> edges_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_LITERAL_FINDER_H_
