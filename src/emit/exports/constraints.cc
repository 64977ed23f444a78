// Exports the shardings that a compiler needs for the activations of a traced
// program: that of each value from which that of the others follows.
// Without it, XLA may gather activations where a plan gathers weights, or
// replicate values to reshard them. The text is the recipe for people who write
// constraints by hand. The Python package adds those of the JSON to a function
// (shardc.constrain). For example:
//
//   h = x @ up      at ffn.py:12, on fsdp=2 tp=4
//     ->  ffn.py:12  dot  [8, 64, 1024]  P("fsdp", None, "tp")
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "emit/exports/exporter.h"
#include "model/manifest.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

using program::Body;
using program::Op;
using program::OpKind;
using program::Phase;
using program::ValueId;

struct Constraint {
  ValueId value;
  const Op* op;
};

// Returns whether the sharding of what follows depends on the results of an op.
// These are products and lookups: all other ops pass the dimensions of their
// operands on. Gradients follow from the forward pass, because the transpose of
// a constraint is one, and their sums are sharded as the parameters.
bool Decides(const Op& op) {
  return op.phase == Phase::kForward &&
         (op.kind == OpKind::kDot || op.kind == OpKind::kRaggedDot ||
          op.kind == OpKind::kConv || op.kind == OpKind::kGather);
}

class Finder {
 public:
  explicit Finder(const ShardedProgram& of) : of_(of) {
    for (const program::Input& input : of.program.inputs) {
      if (input.kind != program::InputKind::kData) continue;
      AddAxes(of.sharding.specs[input.value], data_);
    }
  }

  // Products that only the axes of the batch shard are left to the compiler if
  // other axes shard others: those are matrices of several parts, whose
  // product a compiler may shard as each part is used.
  std::vector<Constraint> Find() {
    Add(of_.program.ops);
    const auto shards = [&](const Constraint& one) {
      return one.op->kind == OpKind::kGather || ShardsMore(*one.op);
    };
    if (std::ranges::any_of(
            out_, [&](const Constraint& one) { return ShardsMore(*one.op); })) {
      std::erase_if(out_, [&](const Constraint& one) { return !shards(one); });
    }
    return std::move(out_);
  }

 private:
  static void AddAxes(const Spec& spec, std::set<std::string>& out) {
    for (const AxisGroup& axes : spec) out.insert(axes.begin(), axes.end());
  }

  // Returns whether an op uses axes that do not shard the batch.
  bool ShardsMore(const Op& op) const {
    const program::OpSharding& chosen = of_.sharding.ops.at(&op);
    std::set<std::string> axes;
    for (const Spec& spec : chosen.in) AddAxes(spec, axes);
    for (const Spec& spec : chosen.out) AddAxes(spec, axes);
    return !std::ranges::includes(data_, axes);
  }

  void Add(const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      if (Decides(op)) out_.push_back({op.out[0], &op});
      // In a manual region, devices hold what its specs say.
      if (op.kind == OpKind::kManual) continue;
      for (const Body& body : op.bodies) Add(body.ops);
    }
  }

  const ShardedProgram& of_;
  std::set<std::string> data_;  // the axes that shard data
  std::vector<Constraint> out_;
};

void WriteText(const ShardedProgram& of, const std::vector<Constraint>& all,
               Sink& out) {
  out.Append("# " + Printable(of.program.function) + " on " +
             MeshText(of.mesh) +
             "\n# The sharding of each product and lookup. Where a line "
             "computes such an x:\n" +
             (!of.program.IsOfTorch()
                  ? "#   x = jax.lax.with_sharding_constraint(x, "
                    "NamedSharding(mesh, P(...)))\n"
                  : "#   x = x.redistribute(mesh, placements), by DTensor's "
                    "Shard(dimension) for each axis\n"));
  // The number of values, by the text of their line.
  std::map<std::string, int64_t> counts;
  std::vector<std::string> lines;
  for (const Constraint& one : all) {
    const std::string at = of.program.LineText(one.op->at);
    const std::string line = (at.empty() ? "an unknown line" : Printable(at)) +
                             "  " + program::NameOf(*one.op) + "  " +
                             ShapeText(of.program.ShapeOf(one.value)) + "  " +
                             PartitionSpecText(of.sharding.specs[one.value]);
    if (counts[line]++ == 0) lines.push_back(line);
  }
  for (const std::string& line : lines) {
    const int64_t count = counts[line];
    out.Append(line + (count > 1 ? "  x " + std::to_string(count) : "") + "\n");
  }
}

void WriteJson(const ShardedProgram& of, const std::vector<Constraint>& all,
               Sink& out) {
  WriteDocument(out, "shardc.constraints/v1", [&](JsonWriter& json) {
    json.Members("function", of.program.function, "mesh", MeshText(of.mesh));
    json.Rows("inputs", of.program.inputs, [&](const program::Input& input) {
      json.Members("name", input.name, "spec", of.sharding.specs[input.value]);
    });
    json.Rows("constraints", all, [&](const Constraint& one) {
      json.Members("value", int64_t{one.value}, "line",
                   TextOrNull(of.program.LineText(one.op->at)), "op",
                   program::NameOf(*one.op), "shape",
                   of.program.ShapeOf(one.value), "spec",
                   of.sharding.specs[one.value]);
    });
  });
}

void WriteConstraints(const Request& request, Sink& out, Findings&) {
  const std::vector<Constraint> all = Finder(*request.sharded).Find();
  if (request.options.json) return WriteJson(*request.sharded, all, out);
  WriteText(*request.sharded, all, out);
}

}  // namespace

const Exporter kConstraints = {
    .name = "constraints",
    .what = "shardings of the activations of a traced program, by line",
    .formats = "text|json",
    .flags = "--mode --program",
    .write = WriteConstraints,
    .of_program = true};

}  // namespace shardc::exports
