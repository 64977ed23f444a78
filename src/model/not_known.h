// Facts about a model for which there is no evidence. A figure or a verdict
// that needs such a fact is not computed as if the fact were false: the fact is
// listed next to the figure, and the figure is a lower bound.
#ifndef SHARDC_MODEL_NOT_KNOWN_H_
#define SHARDC_MODEL_NOT_KNOWN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

// The note of a tree that was built from a config.json whose weights are
// quantised: the names, shapes and dtypes of quantised tensors are not known.
inline constexpr std::string_view kBeforeQuantisation =
    "the tree is that of the model before it is quantised";

// Begins the note of a tree that has the quantised tensors of a published
// checkpoint, as a config.json states them.
inline constexpr std::string_view kQuantisedAs =
    "the weights are quantised by ";

struct NotKnown {
  // The missing fact, such as "the roles of 7 matrices".
  std::string what = {};
  // The parameters that it is about, with `*` in place of each number. Empty if
  // the fact is not about parameters.
  std::vector<std::string> params = {};
  // The bytes of all these parameters, of the entire model; nullopt if the fact
  // is not about parameters, or if a size is unknown.
  std::optional<int64_t> bytes = std::nullopt;
  // What the user can give so that the fact is known, such as "--model
  // CONFIG.json". Empty if nothing settles it.
  std::string settled_by = {};

  friend bool operator==(const NotKnown&, const NotKnown&) = default;
};

// Returns the fact as one line without a line break, with its parameters, their
// bytes and what settles it:
//
//   the roles of 2 matrices: `a.*.w`, `a.*.v` (1.5 GiB); settled by --model
std::string NotKnownText(const NotKnown& fact);

// Appends each of `facts` that `all` does not have yet.
void AddNotKnown(const std::vector<NotKnown>& facts,
                 std::vector<NotKnown>& all);

}  // namespace shardc

#endif  // SHARDC_MODEL_NOT_KNOWN_H_
