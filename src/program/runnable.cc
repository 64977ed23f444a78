// What a run needs to know of a program before it starts. A program may come
// from anywhere, so the runs may rely only on what the reader and these checks
// have seen. For instance, a region over tp = 4 whose operand is [8, 16] with
// the spec [null, tp] must have an input [8, 4] in its body.
#include "program/read.h"

#include <algorithm>
#include <map>
#include <set>

#include "program/program.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

// The functions of maps that both runs have. The number of operands is below
// the name; 0 is any number of at least 2.
struct MapRow {
  std::string_view names;
  size_t operands;
};
constexpr MapRow kMaps[] = {
    {" abs acos acosh asin asinh atan atanh cbrt ceil clz convert cos cosh erf "
     "erfc exp exp2 expm1 floor integer_pow is_finite lgamma log log1p "
     "logistic neg not population_count reduce_precision round rsqrt sign sin "
     "sinh sqrt square tan tanh ",
     1},
    {" add and atan2 div eq eq_to ge gt le le_to lt lt_to max min mul ne or "
     "pow "
     "rem shift_left shift_right_arithmetic shift_right_logical sub xor ",
     2},
    {" clamp ", 3},
    {" select ", 0},
};
// Functions of bits, which floats do not have.
constexpr std::string_view kOfBits =
    " and clz not or population_count shift_left shift_right_arithmetic "
    "shift_right_logical xor ";

bool Names(std::string_view names, std::string_view word) {
  return names.find(" " + std::string(word) + " ") != std::string_view::npos;
}

// The integers from -2^52 to 2^52 - 1 and their sums and differences are exact
// in float64. PyTorch's indices are of 64 bits, and far below.
constexpr int kExactBits = 53;

class Check {
 public:
  explicit Check(const Program& program) : program_(program) {}

  std::optional<std::string> List(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      std::string fault = FaultOf(op);
      if (!fault.empty()) {
        const std::string at = program_.LineText(op.at);
        return "the `" + std::string(RowOf(op.kind).name) + "`" +
               (at.empty() ? "" : " at " + at) + " " + fault;
      }
      const bool manual = op.kind == OpKind::kManual;
      if (manual) region_ = &*op.region;
      for (const Body& body : op.bodies) {
        auto inner = List(body.ops);
        if (inner) return inner;
      }
      if (manual) region_ = nullptr;
    }
    return std::nullopt;
  }

 private:
  std::string FaultOf(const Op& op) {
    switch (op.kind) {
      case OpKind::kManual:
        return RegionFault(op);
      case OpKind::kCollective:
        return CollectiveFault(op);
      case OpKind::kConv:
        return ConvFault(op);
      case OpKind::kScan:
      case OpKind::kWhile:
      case OpKind::kCond:
        return op.kind != OpKind::kScan && ScalarFault(op)
                   ? "has a condition that is no scalar"
                   : "";
      case OpKind::kSort:
        return op.in.empty() || op.NumberOf(Attr::kKeys, 1) < 1 ||
                       op.NumberOf(Attr::kKeys, 1) >
                           static_cast<int64_t>(op.in.size())
                   ? "has no operand to compare"
                   : "";
      case OpKind::kCumulative:
      case OpKind::kTranspose:
        return program_.ShapeOf(op.out[0]).size() !=
                       program_.ShapeOf(op.in[0]).size()
                   ? "has a result of another rank"
                   : "";
      case OpKind::kPad:
        return op.in.size() != 2 || !program_.ShapeOf(op.in[1]).empty()
                   ? "needs a scalar"
                   : "";
      case OpKind::kReduce:
        return op.word.starts_with("arg") && op.Of(Attr::kAxes).size() != 1
                   ? "needs one dimension"
                   : "";
      case OpKind::kDynamicSlice:
      case OpKind::kDynamicUpdateSlice:
        for (size_t i = op.kind == OpKind::kDynamicSlice ? 1 : 2;
             i < op.in.size(); ++i) {
          if (!program_.ShapeOf(op.in[i]).empty()) {
            return "has an index that is no scalar";
          }
        }
        return "";
      default:
        return "";
    }
  }

  bool ScalarFault(const Op& op) const {
    const ValueId which =
        op.kind == OpKind::kWhile ? op.bodies[0].out[0] : op.in[0];
    return !program_.ShapeOf(which).empty();
  }

  std::string ConvFault(const Op& op) const {
    const Shape& x = program_.ShapeOf(op.in[0]);
    const Shape& kernel = program_.ShapeOf(op.in[1]);
    const Shape& result = program_.ShapeOf(op.out[0]);
    const size_t spatial = x.size() - 2;
    const auto padding = op.Of(Attr::kPadding);
    const int64_t batches = op.NumberOf(Attr::kBatchGroups, 1);
    const auto dilation = [&](Attr attr, size_t d) {
      const auto all = op.Of(attr);
      return all.empty() ? int64_t{1} : d < all.size() ? all[d] : int64_t{0};
    };
    if (padding.size() != 2 * spatial) {
      return "needs a padding for each spatial dimension";
    }
    if (batches < 1 || x[AsIndex(op.Of(Attr::kLhs)[0])] % batches != 0 ||
        kernel[AsIndex(op.Of(Attr::kRhs)[0])] % batches != 0 ||
        result[AsIndex(op.Of(Attr::kResult)[0])] !=
            x[AsIndex(op.Of(Attr::kLhs)[0])] / batches) {
      return "has batches that do not agree";
    }
    for (size_t d = 0; d < spatial; ++d) {
      constexpr int64_t kMost = int64_t{1} << 40;
      const int64_t sizes[] = {
          dilation(Attr::kLhsDilation, d), dilation(Attr::kRhsDilation, d),
          op.Of(Attr::kStrides)[d], std::abs(padding[2 * d]) + 1,
          x[AsIndex(op.Of(Attr::kLhs)[d + 2])] + 1};
      for (const int64_t size : sizes) {
        if (size < 1 || size > kMost) {
          return "has a window that is out of range";
        }
      }
    }
    return "";
  }

  // Returns the devices of axes, or nullopt if the region lacks one, runs the
  // body for all of its indices, or an axis occurs twice.
  std::optional<int64_t> Parts(const std::vector<std::string>& axes,
                               std::set<std::string>& seen) const {
    int64_t out = 1;
    for (const std::string& name : axes) {
      const auto at = std::ranges::find(
          region_->mesh, name, &std::pair<std::string, int64_t>::first);
      if (at == region_->mesh.end() || !region_->IsManual(name) ||
          !seen.insert(name).second) {
        return std::nullopt;
      }
      out *= at->second;
    }
    return out;
  }

  std::string RegionFault(const Op& op) {
    if (region_ != nullptr) return "is inside of another one";
    region_ = &*op.region;
    std::string fault;
    constexpr int64_t kMostInRegion = 4096;
    int64_t devices = 1;
    for (const auto& [name, size] : op.region->mesh) {
      devices = std::min(devices * std::min(size, kMostInRegion + 1),
                         kMostInRegion + 1);
    }
    if (devices > kMostInRegion) {
      fault = "has more than " + std::to_string(kMostInRegion) + " devices";
    }
    const auto check = [&](const std::vector<ValueId>& global,
                           const std::vector<ValueId>& local,
                           const std::vector<Spec>& specs) {
      for (size_t i = 0; i < global.size() && fault.empty(); ++i) {
        const Shape& outer = program_.ShapeOf(global[i]);
        const Shape& inner = program_.ShapeOf(local[i]);
        std::set<std::string> seen;
        if (specs[i].size() > outer.size())
          fault = "has a spec of another rank";
        for (size_t d = 0; d < outer.size() && fault.empty(); ++d) {
          const auto parts =
              d < specs[i].size() ? Parts(specs[i][d], seen) : int64_t{1};
          if (!parts || outer[d] != inner[d] * *parts) {
            fault = "has a spec that does not fit the shapes in its body";
          }
        }
      }
    };
    check(op.in, op.bodies[0].in, op.region->in_specs);
    check(op.out, op.bodies[0].out, op.region->out_specs);
    region_ = nullptr;
    return fault;
  }

  std::string CollectiveFault(const Op& op) const {
    constexpr std::string_view kFits = "has a result of another shape";
    if (region_ == nullptr) return "is outside of a manual region";
    std::set<std::string> seen;
    const auto n = Parts(op.axes, seen);
    if (!n || op.axes.empty()) {
      return "is over axes that its region does not have";
    }
    if (op.out.size() != 1) return "must have one result";
    const Shape& out = program_.ShapeOf(op.out[0]);
    if (op.word == "axis_index") return out.empty() ? "" : std::string(kFits);
    constexpr std::string_view kKinds[] = {
        "psum",       "pmax",           "pmin",      "ppermute",
        "all_gather", "reduce_scatter", "all_to_all"};
    if (!IsAmong(op.word, kKinds)) return "is of a kind that is not known";
    if (op.in.size() != 1) return "must have one operand";
    Shape in = program_.ShapeOf(op.in[0]);
    const bool tiled = op.NumberOf(Attr::kTiled) != 0;
    const size_t dim = AsIndex(op.NumberOf(Attr::kDim));
    if (op.word == "ppermute") {
      std::set<int64_t> targets;
      const auto pairs = op.Of(Attr::kPairs);
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i] < 0 || pairs[i] >= *n ||
            (i % 2 == 1 && !targets.insert(pairs[i]).second)) {
          return "sends to or from a device that it does not have, or twice to "
                 "one";
        }
      }
    } else if (op.word == "all_gather") {
      if (dim > in.size() || (tiled && dim == in.size()))
        return std::string(kFits);
      if (tiled) {
        in[dim] *= *n;
      } else {
        in.insert(in.begin() + static_cast<int64_t>(dim), *n);
      }
    } else if (op.word == "reduce_scatter") {
      if (dim >= in.size() || (tiled ? in[dim] % *n != 0 : in[dim] != *n)) {
        return std::string(kFits);
      }
      if (tiled) {
        in[dim] /= *n;
      } else {
        in.erase(in.begin() + static_cast<int64_t>(dim));
      }
    } else if (op.word == "all_to_all") {
      const size_t split = AsIndex(op.NumberOf(Attr::kSplitDim));
      const size_t concat = AsIndex(op.NumberOf(Attr::kConcatDim));
      if (split >= in.size() || concat >= in.size() ||
          (tiled ? in[split] % *n != 0 : in[split] != *n)) {
        return std::string(kFits);
      }
      if (tiled) {
        in[split] /= *n;
        in[concat] *= *n;
      } else {
        in.erase(in.begin() + static_cast<int64_t>(split));
        in.insert(in.begin() + static_cast<int64_t>(concat), *n);
      }
    }
    return in == out ? "" : std::string(kFits);
  }

  const Program& program_;
  const Region* region_ = nullptr;
};

double WorkOfOps(const Program& program, const std::vector<Op>& ops,
                 double turns) {
  // What an op takes however small its values are.
  constexpr double kOfAnOp = 1000;
  double work = 0;
  for (const Op& op : ops) {
    work += turns * kOfAnOp;
    for (const ValueId id : op.out) {
      work += turns * static_cast<double>(
                          CheckedProduct(program.ShapeOf(id)).value_or(0));
    }
    for (const ValueId id : op.in) {
      work += turns * static_cast<double>(
                          CheckedProduct(program.ShapeOf(id)).value_or(0));
    }
    if (IsMatmul(op)) {
      const Shape in[] = {program.ShapeOf(op.in[0]), program.ShapeOf(op.in[1])};
      work += turns / 2 * ProductFlops(op, in, program.ShapeOf(op.out[0]));
    }
    const double inner =
        op.kind == OpKind::kScan
            ? turns * static_cast<double>(op.NumberOf(Attr::kLength))
            : turns;
    for (const Body& body : op.bodies) {
      work += WorkOfOps(program, body.ops, inner);
    }
  }
  return work;
}

}  // namespace

int IntegerBits(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU4:
      return -4;
    case Dtype::kU8:
      return -8;
    case Dtype::kU16:
      return -16;
    case Dtype::kU32:
      return -32;
    case Dtype::kI4:
      return 4;
    case Dtype::kI8:
      return 8;
    case Dtype::kI16:
      return 16;
    case Dtype::kI32:
      return 32;
    case Dtype::kI64:
      return kExactBits;
    default:
      return 0;
  }
}

std::string OpaqueName(const Op& op) {
  return op.word.empty() ? NameOf(op) : op.word;
}

bool IsOpaque(const Program& program, const Op& op) {
  const auto complex = [&](ValueId id) {
    return program.values[id].dtype == Dtype::kC64;
  };
  if (op.kind == OpKind::kOpaque || std::ranges::any_of(op.in, complex) ||
      std::ranges::any_of(op.out, complex)) {
    return op.bodies.empty() && op.kind != OpKind::kCollective;
  }
  constexpr std::string_view kReductions[] = {
      "sum", "prod", "max", "min", "and", "or", "xor", "argmax", "argmin"};
  constexpr std::string_view kScatters[] = {"set", "add", "sub",
                                            "mul", "max", "min"};
  constexpr std::string_view kCumulatives[] = {"sum", "prod", "max", "min",
                                               "logsumexp"};
  switch (op.kind) {
    case OpKind::kReduce:
      return !IsAmong(op.word, kReductions);
    case OpKind::kScatter:
      return !IsAmong(op.word, kScatters);
    case OpKind::kCumulative:
      return !IsAmong(op.word, kCumulatives);
    case OpKind::kMap:
      break;
    default:
      return false;
  }
  const auto dtype = program.values[op.in[0]].dtype;
  const bool whole = dtype == Dtype::kBool || (dtype && IntegerBits(*dtype));
  if (!whole && Names(kOfBits, op.word)) return true;
  return std::ranges::none_of(kMaps, [&](const MapRow& row) {
    return Names(row.names, op.word) &&
           (row.operands == 0 ? op.in.size() >= 2
                              : op.in.size() == row.operands);
  });
}

std::optional<std::string> FormFault(const Program& program) {
  return Check(program).List(program.ops);
}

std::optional<std::string> RunFault(const Program& program) {
  constexpr int64_t kMost = int64_t{1} << (kExactBits - 1);
  for (const Value& value : program.values) {
    const bool large = std::ranges::any_of(
        value.integers, [](int64_t x) { return x < -kMost || x >= kMost; });
    if (value.dtype == Dtype::kU64 || (value.dtype == Dtype::kI64 && large)) {
      return "it has integers of 64 bits, which a proof in float64 does not "
             "represent";
    }
  }
  return FormFault(program);
}

double WorkOf(const Program& program) {
  return WorkOfOps(program, program.ops, 1);
}

}  // namespace shardc::program
