// Compares the values of a program with those of a reference that computes the
// same results by other ops, such as a function with and without shard_map.
// In a manual region a value is an array of each device, and may be known in
// several ways:
//
//   shards        on tp = 4, [2, 4] of each device are [2, 16] joined
//   replicas      all devices have the array
//   partial sums  the arrays of all devices are added
//
// Numbers that many values share, such as whole numbers and constants, neither
// are strange nor show that another value is known.
#include "verify/program/proof.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "source/size.h"

namespace shardc::verify {
namespace {

using dense::Array;
using dense::ProgramValue;
using program::Op;
using program::OpKind;
using program::ValueId;

bool Equal(const std::vector<double>& a, const std::vector<double>& b,
           double allowed) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::fabs(a[i] - b[i]) <= allowed)) return false;
  }
  return true;
}

double AllowedFor(const Array& value) {
  double largest = 0;
  for (const double x : value.data) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  return verify::AllowedFor(largest);
}

// Whether few other values would have the same numbers by chance.
bool Telling(const ProgramValue& value) {
  bool part = false;
  bool several = false;
  for (const Array& one : value) {
    for (const double x : one.data) {
      part = part || (std::isfinite(x) && x != std::floor(x));
      several = several || x != value[0].data[0];
    }
  }
  return part && several;
}

Array Added(Array a, const Array& b) {
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

Array Joined(const std::vector<Array>& parts, size_t dim) {
  Array out;
  out.shape = parts[0].shape;
  out.shape[dim] *= static_cast<int64_t>(parts.size());
  const auto& shape = parts[0].shape;
  size_t outer = 1;
  for (size_t i = 0; i < dim; ++i) outer *= AsIndex(shape[i]);
  const size_t row = outer == 0 ? 0 : parts[0].data.size() / outer;
  for (size_t i = 0; i < outer; ++i) {
    for (const Array& one : parts) {
      const auto from = one.data.begin() + static_cast<std::ptrdiff_t>(i * row);
      out.data.insert(out.data.end(), from,
                      from + static_cast<std::ptrdiff_t>(row));
    }
  }
  return out;
}

class Finder {
 public:
  Finder(const program::Program& program, const dense::ProgramRun& run,
         const dense::ProgramRun& reference)
      : program_(program), run_(run) {
    for (const ProgramValue& value : reference.values) {
      if (value.size() == 1 && Telling(value)) {
        known_[value[0].shape].push_back({&value[0], AllowedFor(value[0])});
      }
    }
  }

  const Op* Find(std::optional<ValueId> wrong) {
    for (const Op& op : program_.ops) {
      if (op.kind != OpKind::kManual) continue;
      std::set<ValueId> results;
      for (size_t i = 0; i < op.out.size(); ++i) {
        if (op.out[i] == wrong || Lacks(op.out[i])) {
          results.insert(op.bodies[0].out[i]);
        }
      }
      if (results.empty()) continue;
      for (const auto& [name, size] : op.region->mesh) {
        if (op.region->IsManual(name)) sizes_.push_back(AsIndex(size));
      }
      const Op* const inner = FirstOf(op.bodies[0].ops, std::move(results));
      return inner != nullptr && inner->bodies.empty() ? inner : &op;
    }
    std::set<ValueId> results(program_.outputs.begin(), program_.outputs.end());
    std::erase_if(results,
                  [&](ValueId id) { return id != wrong && !Lacks(id); });
    return FirstOf(program_.ops, std::move(results));
  }

 private:
  // Returns the first of the ops that compute strange values, on which the
  // given strange ones depend, from others.
  const Op* FirstOf(const std::vector<Op>& ops, std::set<ValueId> strange) {
    for (const Op& op : ops) {
      // The same numbers in another form need not be a value of the reference.
      if (op.kind == OpKind::kBroadcast || op.kind == OpKind::kReshape ||
          op.kind == OpKind::kTranspose || op.kind == OpKind::kSlice) {
        const auto of = same_.find(op.in[0]);
        same_[op.out[0]] = of == same_.end() ? op.in[0] : of->second;
      }
      if (op.kind == OpKind::kConst) constants_.insert(op.out[0]);
    }
    // Whether some of the values are strange, which are looked into then.
    const auto lack = [&](const std::vector<ValueId>& ids, bool partial) {
      bool any = false;
      for (const ValueId id : ids) {
        const auto of = same_.find(id);
        const ValueId source = of == same_.end() ? id : of->second;
        if (constants_.contains(source) || !Lacks(source, partial)) continue;
        any = true;
        strange.insert(source);
      }
      return any;
    };
    const Op* first = nullptr;
    for (size_t i = ops.size(); i > 0; --i) {
      const Op& op = ops[i - 1];
      const bool computes = op.kind != OpKind::kConst &&
                            std::ranges::any_of(op.out, [&](ValueId id) {
                              return strange.contains(id);
                            });
      // A collective may add partial sums; other ops need whole values.
      if (computes && !lack(op.in, op.kind == OpKind::kCollective)) first = &op;
    }
    return first;
  }

  // Whether a value was not computed, or is no value of the reference. In a
  // region it may be a partial sum if `partial` holds.
  bool Lacks(ValueId id, bool partial = false) const {
    const ProgramValue& value = run_.values[id];
    return value.empty() ||
           (Telling(value) &&
            !Known(value, value.size() == 1 ? 0 : sizes_.size(), partial));
  }

  // Whether the arrays are a value of the reference. The first `axes` axes of
  // the region distinguish them, the last one fastest.
  bool Known(const ProgramValue& value, size_t axes, bool partial) const {
    if (axes == 0) {
      const auto at = known_.find(value[0].shape);
      return at != known_.end() &&
             std::ranges::any_of(at->second, [&](const auto& one) {
               return Equal(value[0].data, one.first->data, one.second);
             });
    }
    for (size_t way = partial ? 0 : 1; way < value[0].rank() + 2; ++way) {
      ProgramValue merged;
      for (size_t i = 0; i < value.size(); i += sizes_[axes - 1]) {
        auto one = Merged(
            {value.begin() + static_cast<std::ptrdiff_t>(i),
             value.begin() + static_cast<std::ptrdiff_t>(i + sizes_[axes - 1])},
            way);
        if (!one) break;
        merged.push_back(*std::move(one));
      }
      if (merged.size() * sizes_[axes - 1] == value.size() &&
          Known(merged, axes - 1, partial)) {
        return true;
      }
    }
    return false;
  }

  // Returns the whole of the arrays along an axis: their sum, the only one if
  // all are equal, or the arrays joined in dimension `way` - 2.
  static std::optional<Array> Merged(const std::vector<Array>& parts,
                                     size_t way) {
    if (way >= 2) return Joined(parts, way - 2);
    Array out = parts[0];
    const double allowed = AllowedFor(out);
    for (size_t i = 1; i < parts.size(); ++i) {
      if (way == 0) {
        out = Added(std::move(out), parts[i]);
      } else if (!Equal(parts[i].data, out.data, allowed)) {
        return std::nullopt;
      }
    }
    return out;
  }

  const program::Program& program_;
  const dense::ProgramRun& run_;
  // Values of the reference by shape, and how far equal ones may be from them.
  std::map<std::vector<int64_t>, std::vector<std::pair<const Array*, double>>>
      known_;
  std::vector<size_t> sizes_;  // of the region's axes
  // Of what has the numbers of another value in another form: that value.
  std::map<ValueId, ValueId> same_;
  std::set<ValueId> constants_;
};

}  // namespace

const Op* FirstStrange(const program::Program& program,
                       const dense::ProgramRun& run,
                       const dense::ProgramRun& reference,
                       std::optional<program::ValueId> wrong) {
  return Finder(program, run, reference).Find(wrong);
}

}  // namespace shardc::verify
