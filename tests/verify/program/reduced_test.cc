// Proofs at reduced sizes against proofs at the traced sizes: the verdicts are
// the same, with and without a fault in the sharded run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "complete.h"
#include "exec/machine/sharded.h"
#include "exec/program/run.h"
#include "meshes.h"
#include "program/read.h"
#include "source/file.h"
#include "source/size.h"
#include "verify/program/proof.h"

namespace shardc::verify {
namespace {

using program::Op;
using program::OpKind;
using program::Program;
using program::ValueId;

std::string RootFolder() {
  const char* const root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  return root;
}

std::optional<Program> Read(const std::string& path) {
  Findings findings;
  const SourceRef source = ReadSource(path, findings);
  REQUIRE(source);
  return program::ReadProgram(source, findings);
}

std::vector<Spec> SpecsFor(const Program& program, const Mesh& mesh) {
  std::vector<Spec> params;
  for (const program::Input& input : program.inputs) {
    if (input.kind != program::InputKind::kParam) continue;
    const Shape& shape = program.ShapeOf(input.value);
    Spec& spec = params.emplace_back(shape.size());
    for (size_t i = 0; i < shape.size() && i < mesh.axes.size(); ++i) {
      const MeshAxis& axis = mesh.axes[i];
      if (shape[i] % axis.size == 0) spec[i] = {axis.name};
    }
  }
  std::vector<std::string> notes;
  return InputSpecs(program, mesh, params, {mesh.axes[0].name}, notes);
}

std::optional<ProgramProof> Proved(const Program& program, const Mesh& mesh,
                                   ProofSizes sizes,
                                   std::optional<exec::Seams> seams = {},
                                   const Program* reference = nullptr) {
  ProgramRequest request;
  request.program = &program;
  request.reference = reference;
  request.mesh = mesh;
  request.specs = SpecsFor(program, mesh);
  request.sizes = sizes;
  // Replaced code runs for one op, which another one may stand for.
  request.folds = !seams;
  if (seams) request.seams = std::move(*seams);
  Findings findings;
  return ProveProgram(request, findings);
}

std::string Verdict(const std::optional<ProgramProof>& proof) {
  if (!proof) return "refused";
  if (proof->unproved) return "not proved";
  return proof->failure ? "differs" : "equal";
}

// ---- without a fault

TEST_CASE("recorded programs have one verdict at reduced and at traced sizes") {
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 2}});
  int reduced = 0;
  int all = 0;
  for (const std::string folder :
       {"programs", "steps", "torch_programs", "library_programs",
        "program_costs", "constraints"}) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(
             RootFolder() + "/testdata/" + folder)) {
      const std::string path = entry.path().string();
      if (path.ends_with(".program.json.gz")) paths.push_back(path);
    }
    std::ranges::sort(paths);
    for (size_t i = 0; i < paths.size(); ++i) {
      if (!RunsAllCases() && i % 6 != 0) continue;
      CAPTURE(paths[i]);
      const auto program = Read(paths[i]);
      REQUIRE(program);
      const auto traced = Proved(*program, mesh, ProofSizes::kTraced);
      if (!traced) continue;
      const auto made = Proved(*program, mesh, ProofSizes::kReduced);
      CHECK(Verdict(made) == Verdict(traced));
      if (!made) continue;
      ++all;
      reduced += made->reduced ? 1 : 0;
      // What is sent is counted at the traced sizes.
      CHECK(made->values == traced->values);
      REQUIRE(made->rows.size() == traced->rows.size());
      for (size_t row = 0; row < made->rows.size(); ++row) {
        CHECK(made->rows[row].kind == traced->rows[row].kind);
        CHECK(made->rows[row].axes == traced->rows[row].axes);
        CHECK(made->rows[row].count == traced->rows[row].count);
        CHECK(made->rows[row].bytes == traced->rows[row].bytes);
      }
    }
  }
  CHECK(2 * reduced > all);
}

// ---- with a fault

using Change = std::function<void(exec::Buffer&)>;

// Replaces each line of elements along the last dimension.
void ForRows(exec::Buffer& x, const std::function<void(double*, size_t)>& row) {
  const size_t width = x.shape.empty() ? 1 : AsIndex(x.shape.back());
  for (size_t at = 0; width > 0 && at + width <= x.wide.size(); at += width) {
    row(x.wide.data() + at, width);
  }
}

struct Fault {
  std::string name;
  Change change;  // of the result of an op on each device
};

const std::vector<Fault>& Faults() {
  static const std::vector<Fault> kAll = {
      {"a shifted slice",
       [](exec::Buffer& x) {
         ForRows(x, [](double* row, size_t n) {
           std::rotate(row, row + 1, row + n);
         });
       }},
      {"a swapped part",
       [](exec::Buffer& x) {
         ForRows(x, [](double* row, size_t n) {
           std::rotate(row, row + n / 2, row + n);
         });
       }},
      {"a reversed axis",
       [](exec::Buffer& x) {
         ForRows(x, [](double* row, size_t n) { std::reverse(row, row + n); });
       }},
      {"a wrong mask",
       [](exec::Buffer& x) {
         ForRows(x, [](double* row, size_t n) { row[n - 1] = 0; });
       }},
      {"a sum that is counted twice",
       [](exec::Buffer& x) {
         for (double& one : x.wide) one *= 2;
       }},
      {"a lost row",
       [](exec::Buffer& x) {
         for (size_t i = 0; i < x.wide.size() / 2; ++i) x.wide[i] = 0;
       }},
  };
  return kAll;
}

exec::Seams SeamsOf(ValueId wrong, const Change& change) {
  exec::ProgramOpSeam seam;
  seam.run = [wrong, change](const exec::ProgramOp& local) {
    exec::RunProgramOp(local);
    if (local.op->out[0] == wrong) change((*local.out)[0]);
  };
  exec::Seams out;
  out.Set(seam);
  return out;
}

// The results of ops whose numbers differ from each other.
std::vector<ValueId> Places(const Program& program) {
  std::vector<ValueId> out;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::kDot && op.kind != OpKind::kMap &&
        op.kind != OpKind::kReduce && op.kind != OpKind::kGather) {
      continue;
    }
    const auto& value = program.values[op.out[0]];
    if (!value.dtype || *value.dtype == Dtype::kBool ||
        program::IntegerBits(*value.dtype) != 0 || value.shape.size() < 2) {
      continue;
    }
    out.push_back(op.out[0]);
  }
  return out;
}

TEST_CASE("faults are found at reduced sizes as at the traced ones") {
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 2}});
  int found = 0;
  for (const std::string name :
       {"programs/llama", "programs/gpt_fused", "programs/mla",
        "programs/moe_dense", "programs/decode", "programs/mamba2",
        "programs/dit", "programs/lora", "programs/griffin",
        "programs/scan_llama", "programs/moe_ragged", "torch_programs/phi3",
        "steps/vit"}) {
    const std::string path =
        RootFolder() + "/testdata/" + name + ".program.json.gz";
    CAPTURE(name);
    const auto program = Read(path);
    REQUIRE(program);
    const std::vector<ValueId> places = Places(*program);
    size_t next = 0;
    for (const Fault& fault : Faults()) {
      CAPTURE(fault.name);
      // The next place at which the fault changes something.
      for (int tries = 0; tries < 8; ++tries) {
        next += std::max<size_t>(1, places.size() / 13);
        const ValueId place = places[next % places.size()];
        const exec::Seams seams = SeamsOf(place, fault.change);
        const auto traced = Proved(*program, mesh, ProofSizes::kTraced, seams);
        if (!traced || !traced->failure) continue;
        const auto made = Proved(*program, mesh, ProofSizes::kReduced, seams);
        REQUIRE(made);
        CHECK(Verdict(made) == Verdict(traced));
        if (made->failure) CHECK(made->failure->line == traced->failure->line);
        ++found;
        break;
      }
    }
  }
  CHECK(found >= 60);
}

// Reductions that do not run, and collectives that join the parts in another
// order.
TEST_CASE(
    "wrong collectives are found at reduced sizes as at the traced ones") {
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 2}});
  int found = 0;
  for (const std::string name :
       {"programs/llama.step", "programs/gpt_fused.step",
        "programs/mla.step"}) {
    CAPTURE(name);
    const auto program =
        Read(RootFolder() + "/testdata/" + name + ".program.json.gz");
    REQUIRE(program);
    for (int number = 1; number < 30; number += RunsAllCases() ? 4 : 12) {
      const auto seams = [&] {
        exec::CollectiveSeam seam;
        seam.run = [number, count = std::make_shared<int>(0)](
                       exec::Machine& machine,
                       const exec::CollectiveCall& call) {
          exec::PerDevice out = exec::RunCollective(machine, call);
          const bool sums = call.kind == Collective::kAllReduce;
          if (++*count == number && sums) return *call.in;
          return out;
        };
        exec::Seams made;
        made.Set(seam);
        return made;
      };
      const auto traced = Proved(*program, mesh, ProofSizes::kTraced, seams());
      const auto made = Proved(*program, mesh, ProofSizes::kReduced, seams());
      CHECK(Verdict(made) == Verdict(traced));
      found += traced && traced->failure ? 1 : 0;
    }
  }
  CHECK(found >= 3);
}

// A region's own faults are found with its reference as well, since the sizes
// that its constants are about are kept.
TEST_CASE("faults of manual regions are found at reduced sizes") {
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"tp", 4}});
  int found = 0;
  for (const std::string name :
       {"mlp", "ring", "ulysses", "vocabulary", "flash_decode", "scattered"}) {
    CAPTURE(name);
    const std::string path = RootFolder() + "/testdata/regions/" + name;
    const auto program = Read(path + ".program.json.gz");
    const auto reference = Read(path + "_reference.program.json.gz");
    REQUIRE(program);
    REQUIRE(reference);
    const auto verdicts = [&](const Program& one) {
      return std::pair(
          Verdict(Proved(one, mesh, ProofSizes::kTraced, {}, &*reference)),
          Verdict(Proved(one, mesh, ProofSizes::kReduced, {}, &*reference)));
    };
    const auto right = verdicts(*program);
    CHECK(right.first == "equal");
    CHECK(right.second == "equal");
    for (size_t i = 0; i < program->ops.size(); ++i) {
      if (program->ops[i].kind != OpKind::kManual) continue;
      const size_t count = program->ops[i].bodies[0].ops.size();
      for (size_t k = 0; k < count; ++k) {
        Program wrong = *program;
        Op& op = wrong.ops[i].bodies[0].ops[k];
        if (op.word == "mul") {
          op.word = "add";
        } else if (op.word == "psum") {
          op.word = "pmax";
        } else if (op.word == "sub") {
          op.word = "add";
        } else if (op.word == "ge") {
          op.word = "lt";
        } else if (op.word == "axis_index") {
          op.axes = {"fsdp"};
        } else {
          continue;
        }
        CAPTURE(k);
        const auto both = verdicts(wrong);
        CHECK(both.first == both.second);
        found += both.first == "differs" ? 1 : 0;
      }
    }
  }
  CHECK(found >= 15);
}

}  // namespace
}  // namespace shardc::verify
