// Reads replica groups: the sets of devices that take part in a collective
// together.
#ifndef SHARDC_HLO_GROUPS_H_
#define SHARDC_HLO_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/size.h"

namespace shardc::hlo {

// Programs that run on more devices than this are refused.
inline constexpr int64_t kMostDevices = 1 << 20;

// Indexed by group: the device numbers of its members, in the order of the
// text.
using Groups = std::vector<std::vector<int64_t>>;

// Fills an array of these sizes with 0, 1, 2 and so on, transposes the array,
// and returns its elements in row-major order. For example, `[2,3]T(1,0)`
// returns 0 3 1 4 2 5. `order` must be a permutation of the dimensions, and
// `count` the product of the sizes.
std::vector<int64_t> IotaNumbers(std::span<const int64_t> sizes,
                                 std::span<const int64_t> order, int64_t count);

// Reads the value of `replica_groups`, in any of XLA's spellings:
//
//   {{0,2},{1,3}}                     lists
//   [2,2]<=[2,2]T(1,0)                iota, reshaped and transposed
//   mesh['a'=2,'b'=2] {'a'}           the axes of a mesh along which the
//   mesh[...], device_ids=(...) {'a'} members of a group differ
//   @mesh<a=2,b=2> {a}                an older spelling
//   {} or no text                     all `devices` in one group
//
// Text after the groups is ignored. Returns nullopt if the text has another
// form, or if a device number is not less than `devices`.
std::optional<Groups> ReadGroups(std::string_view text, int64_t devices);

// Reads the value of `source_target_pairs`, such as `{{0,1},{1,0}}`. Returns
// nullopt if the text has another form, or if a device number is not less than
// `devices`.
std::optional<std::vector<std::pair<int64_t, int64_t>>> ReadPairs(
    std::string_view text, int64_t devices);

struct Array {
  std::string_view element;  // the element type, such as "bf16"
  int64_t bits = 0;  // bits of one element; 0 for a token or an opaque value
  std::vector<int64_t> dims;

  Size Elements() const;
  Size Bytes() const;        // bytes of all elements, rounded up
  std::string Text() const;  // such as "bf16[8,128]"
  bool operator==(const Array&) const = default;
};

// Returns the arrays of a type, in the order of the text. Tuples may be nested.
// Layouts are ignored. A dynamic size such as `<=8` is read as 8. Reads no more
// than `most` arrays: to find whether a type is a single array, two suffice,
// and the state of a loop may be a tuple of all parameters.
std::vector<Array> ArraysOf(std::string_view type, size_t most = SIZE_MAX);
inline constexpr size_t kOneOrMore = 2;

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_GROUPS_H_
