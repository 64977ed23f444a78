// Reads replica groups in the forms that XLA writes. In the iota form, the
// sizes after `<=` describe an array that holds the numbers 0, 1, 2 and so on.
// The array is transposed, and then split into rows, one for each group. In the
// mesh form, the members of a group differ only along the named axes:
//
//   [2,3]<=[3,2]T(1,0)            0 2 4 | 1 3 5
//   mesh['a'=2,'b'=3] {'a'}       0 3 | 1 4 | 2 5
//
// In the mesh form, a group may also run over one factor of an axis. The factor
// is written as the product of the factors before it, and its own size. For an
// axis 'd' of size 8 = 2 x 2 x 2, 'd':(2)2 is the factor in the middle.
#include "hlo/groups.h"

#include <algorithm>
#include <numeric>

#include "hlo/program.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::hlo {
namespace {

using Numbers = std::vector<int64_t>;

// Reads a text from its start to its end. Each method returns whether the text
// has the expected form at the current position.
class GroupsReader {
 public:
  GroupsReader(std::string_view text, int64_t devices)
      : text_(text), devices_(devices) {}

  bool Lists(Groups& out) {
    if (!Take("{")) return false;
    int64_t members = 0;
    while (!Take("}")) {
      Take(",");
      if (!Take("{") || !List('}', out.emplace_back())) return false;
      members += std::ssize(out.back());
      if (members > kMostDevices || !AreDevices(out.back())) return false;
    }
    return true;
  }

  bool Iota(Groups& out) {
    Numbers rows, ids;
    if (!Take("[") || !List(']', rows) || rows.empty()) return false;
    if (!Take("<=") || !Ids(ids) || !AreDevices(ids)) return false;
    const auto size = rows.back();
    if (size < 1 || CheckedProduct(rows) != std::ssize(ids)) return false;
    for (auto at = ids.begin(); at != ids.end(); at += size) {
      out.emplace_back(at, at + size);
    }
    return true;
  }

  bool OfMesh(Groups& out) {
    const bool older = Take("@");
    if (!Take(older ? "mesh<" : "mesh[")) return false;
    while (!Take(older ? ">" : "]")) {
      Take(",");
      Axis& axis = axes_.emplace_back();
      if (!Name(axis.name) || !Take("=") || !Number(axis.size)) return false;
      if (axis.size < 1 || axes_.size() > 64) return false;
    }
    Numbers ids;
    if (Take(",")) {
      if (!Take("device_ids=(")) return false;
      if (!(text_.starts_with("[") ? Ids(ids) && Take(")") : List(')', ids))) {
        return false;
      }
    }
    if (!Take("{")) return false;
    while (!Take("}")) {
      Take(",");
      if (!AxisOfGroup()) return false;
    }
    return Expand(std::move(ids), out);
  }

 private:
  // A factor of an axis along which the members of a group differ. `before` is
  // the product of all factors of the axis that precede this factor.
  struct Part {
    int64_t before = 1, size = 1;
  };
  struct Axis {
    std::string_view name;
    int64_t size = 1;
    std::vector<Part> parts;
  };

  bool Take(std::string_view word) {
    text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size()));
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  bool Number(int64_t& out) {
    const size_t end =
        std::min(text_.find_first_not_of("0123456789"), text_.size());
    const auto read = LeadingNumber(text_.substr(0, end));
    if (!read) return false;
    out = *read;
    text_.remove_prefix(end);
    return true;
  }

  bool List(char close, Numbers& out) {
    while (!Take(std::string_view(&close, 1))) {
      Take(",");
      if (AsIndex(kMostDevices) <= out.size()) return false;
      if (!Number(out.emplace_back())) return false;
    }
    return true;
  }

  bool Name(std::string_view& out) {
    Take(",");
    const bool quoted = Take("'");
    const size_t end = text_.find_first_of(quoted ? "'" : "=,:}>");
    if (end == std::string_view::npos) return false;
    out = text_.substr(0, end);
    text_.remove_prefix(end + (quoted ? 1 : 0));
    return true;
  }

  // Reads the sizes of an array and an optional order of its dimensions, such
  // as `[2,4]T(1,0)`. Sets `out` to the device numbers that this text
  // describes.
  bool Ids(Numbers& out) {
    Numbers sizes, order;
    if (!Take("[") || !List(']', sizes)) return false;
    order.resize(sizes.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    if (Take("T(")) {
      Numbers given;
      if (!List(')', given)) return false;
      Numbers sorted = given;
      std::ranges::sort(sorted);
      if (sorted != order) return false;
      order = std::move(given);
    }
    const auto count = CheckedProduct(sizes);
    if (!count || *count < 1 || *count > kMostDevices || sizes.size() > 64) {
      return false;
    }
    out = IotaNumbers(sizes, order, *count);
    return true;
  }

  bool AxisOfGroup() {
    std::string_view name;
    if (!Name(name)) return false;
    const auto axis = std::ranges::find(axes_, name, &Axis::name);
    if (axis == axes_.end()) return false;
    Part part{1, axis->size};
    if (Take(":")) {
      if (!Take("(") || !Number(part.before) || !Take(")")) return false;
      if (!Number(part.size) || part.before < 1 || part.size < 1) return false;
      const auto taken = CheckedMul(part.before, part.size);
      if (!taken || axis->size % *taken != 0) return false;
    }
    axis->parts.push_back(part);
    return true;
  }

  bool Expand(Numbers ids, Groups& out) {
    Numbers sizes;
    for (const Axis& axis : axes_) sizes.push_back(axis.size);
    const auto count = CheckedProduct(sizes);
    if (!count || *count > kMostDevices) return false;
    if (ids.empty()) {
      ids.resize(AsIndex(*count));
      std::iota(ids.begin(), ids.end(), int64_t{0});
    }
    if (std::ssize(ids) != *count || !AreDevices(ids)) return false;
    // A group is identified by its first member, whose indices along all named
    // factors are 0. `group_at` is indexed by the position of the first member,
    // and contains the index of the group in `out`.
    std::vector<int64_t> group_at(ids.size(), -1);
    for (size_t place = 0; place < ids.size(); ++place) {
      const size_t first = AsIndex(FirstMember(static_cast<int64_t>(place)));
      if (group_at[first] < 0) {
        group_at[first] = std::ssize(out);
        out.emplace_back();
      }
      out[AsIndex(group_at[first])].push_back(ids[place]);
    }
    return true;
  }

  int64_t FirstMember(int64_t place) const {
    int64_t out = 0, stride = 1;
    for (size_t i = axes_.size(); i > 0; --i) {
      const Axis& axis = axes_[i - 1];
      int64_t index = place % axis.size;
      place /= axis.size;
      for (const Part& part : axis.parts) {
        const int64_t unit = axis.size / part.before / part.size;
        index -= index / unit % part.size * unit;
      }
      out += index * stride;
      stride *= axis.size;
    }
    return out;
  }

  bool AreDevices(const Numbers& ids) const {
    return std::ranges::all_of(ids, [&](int64_t id) { return id < devices_; });
  }

  std::string_view text_;
  int64_t devices_;
  std::vector<Axis> axes_;
};

}  // namespace

std::vector<int64_t> IotaNumbers(std::span<const int64_t> sizes,
                                 std::span<const int64_t> order,
                                 int64_t count) {
  Numbers strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * sizes[i - 1];
  }
  Numbers out(AsIndex(count));
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place, id = 0;
    for (size_t i = order.size(); i > 0; --i) {
      const size_t dim = AsIndex(order[i - 1]);
      id += rest % sizes[dim] * strides[dim];
      rest /= sizes[dim];
    }
    out[AsIndex(place)] = id;
  }
  return out;
}

std::optional<Groups> ReadGroups(std::string_view text, int64_t devices) {
  Groups out;
  GroupsReader reader(text, devices);
  bool good = true;
  if (text.starts_with('{')) {
    good = reader.Lists(out);
  } else if (text.starts_with('[')) {
    good = reader.Iota(out);
  } else if (!text.empty()) {
    good = reader.OfMesh(out);
  }
  if (!good) return std::nullopt;
  if (out.empty()) {
    out.emplace_back(AsIndex(devices));
    std::iota(out.front().begin(), out.front().end(), int64_t{0});
  }
  return out;
}

std::optional<std::vector<std::pair<int64_t, int64_t>>> ReadPairs(
    std::string_view text, int64_t devices) {
  Groups lists;
  if (!GroupsReader(text, devices).Lists(lists)) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const auto& pair : lists) {
    if (pair.size() != 2) return std::nullopt;
    out.emplace_back(pair[0], pair[1]);
  }
  return out;
}

// Reads the arrays of an instruction's type. The first number in the name of an
// element type is the number of bits of an element. The exception is `pred`,
// which has 8 bits:
//
//   (bf16[8,128]{1,0:T(8,128)(2,1)}, /*index=1*/u32[]{:S(2)})
//   ->  bf16, 16 bits, 8 x 128; u32, 32 bits, no dimensions

namespace {

int64_t BitsOf(std::string_view element) {
  if (element == "pred") return 8;
  const size_t digit = element.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;  // a token or an opaque value
  return std::min<int64_t>(LeadingNumber(element.substr(digit)).value_or(0),
                           128);
}

}  // namespace

Size Array::Elements() const {
  Size out = 1;
  for (const int64_t dim : dims) out *= dim;
  return out;
}

Size Array::Bytes() const {
  if (bits % 8 == 0) return Elements() * (bits / 8);
  return (Elements() * bits + 7) / 8;
}

std::string Array::Text() const {
  return std::string(element) + '[' + Join(dims, ",") + ']';
}

std::vector<Array> ArraysOf(std::string_view type, size_t most) {
  std::vector<Array> out;
  size_t i = 0;
  while (i < type.size() && out.size() < most) {
    if (type[i] == '{') {  // a layout
      i = std::min(type.find('}', i), type.size() - 1) + 1;
      continue;
    }
    if (type.substr(i, 2) == "/*") {
      i = std::min(type.find("*/", i + 2), type.size() - 2) + 2;
      continue;
    }
    if (!IsLetter(type[i])) {
      ++i;
      continue;
    }
    const size_t open = type.find('[', i);
    const size_t close = type.find(']', i);
    if (open >= close || close == std::string_view::npos) break;
    Array array{type.substr(i, open - i), 0, {}};
    array.bits = BitsOf(array.element);
    std::string_view sizes = type.substr(open + 1, close - open - 1);
    for (std::string_view size; NextItem(sizes, size);) {
      if (size.starts_with("<=")) size.remove_prefix(2);
      array.dims.push_back(
          std::max<int64_t>(LeadingNumber(size).value_or(Size::kTooLarge), 0));
    }
    out.push_back(std::move(array));
    i = close + 1;
  }
  return out;
}

}  // namespace shardc::hlo
