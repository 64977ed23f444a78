// Checks a case at the sizes that the user gave, without running it. The
// operation receives shapes without elements, which need no memory. The
// operation computes nothing, and only reports whether it supports these
// shapes. The formula for its bytes reads no elements either.
//
//   64 rows of 8,192 keys over sp=3  ->  refused, and no key was allocated
#include "verify/judge/given.h"

#include <utility>

#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "verify/cases/features.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using exec::Buffer;

// Returns the shapes of the latent inputs, or nullopt if the case has no
// latent. They are read from a latent of one token, since its rank and rotated
// size do not depend on batch, length or heads.
std::optional<exec::LatentInputs> HollowLatent(const Case& test) {
  const Sizes& n = test.sizes;
  if (!test.operation->latent || n.heads != n.key_heads) return std::nullopt;
  Case one = test;
  one.layout = Layout::kBthd;
  one.sizes.batch = one.sizes.query_length = one.sizes.key_length = 1;
  one.sizes.heads = one.sizes.key_heads = 1;
  one.features = {};
  std::optional<exec::LatentInputs> out = MakeProblem(one).latent;
  if (!out) return std::nullopt;
  const auto hollow = [](Buffer& x, int64_t first,
                         std::optional<int64_t> then) {
    x.shape[0] = first;
    if (then) x.shape[1] = *then;
    x = Buffer::Hollow(x.shape, x.dtype);
  };
  hollow(out->latent, n.batch, n.key_length);
  hollow(out->rope_key, n.batch, n.key_length);
  hollow(out->up_key, n.heads, std::nullopt);
  hollow(out->up_value, n.heads, std::nullopt);
  return out;
}

// Returns the case's inputs as shapes without elements. The lengths, starts and
// positions of rows and the table of blocks are left out.
exec::AttentionProblem HollowProblem(const Case& test) {
  const Sizes& n = test.sizes;
  const Features& f = test.features;
  const bool packed = test.layout == Layout::kThd;
  const int64_t batch = packed ? 1 : n.batch;
  const int64_t rows = packed ? n.batch * n.query_length : n.query_length;
  const int64_t keys = packed ? n.batch * n.key_length : n.key_length;
  const auto tensor = [&](int64_t length, int64_t heads, int64_t dim,
                          Dtype dtype) {
    return Buffer::Hollow(ShapeIn(test.layout, n.batch, length, heads, dim),
                          dtype);
  };
  exec::AttentionProblem out;
  out.layout = test.layout;
  out.query = tensor(n.query_length, n.heads, n.head_dim, test.dtype);
  out.key = tensor(n.key_length, n.key_heads, n.head_dim, KeyDtype(test));
  out.value = tensor(n.key_length, n.key_heads, n.ValueDim(), KeyDtype(test));
  if (f.bias) {
    out.bias = Buffer::Hollow({batch, f.bias_by_head ? n.heads : 1, rows, keys},
                              Dtype::kF32);
  }
  if (f.mask || (f.masked_row && !f.additive_mask)) {
    out.mask = Buffer::Hollow({batch, 1, rows, keys}, Dtype::kBool);
  }
  if (f.additive_mask) {
    out.additive_mask = Buffer::Hollow({batch, 1, rows, keys}, Dtype::kF32);
  }
  if (packed || f.segments) {
    out.query_segments = Buffer::Hollow({batch, rows}, Dtype::kI32);
    out.key_segments = Buffer::Hollow({batch, keys}, Dtype::kI32);
  }
  if (f.sinks_rank > 0) {
    out.softmax_aux = Buffer::Hollow(
        f.sinks_rank == 1 ? Shape{n.heads} : Shape{2, n.key_heads},
        Dtype::kF32);
  }
  out.latent = HollowLatent(test);
  out.options.causal = f.causal;
  out.options.scale = f.scale;
  out.options.soft_cap = f.soft_cap;
  out.options.dropout = f.dropout;
  out.options.window = WindowOf(f);
  return out;
}

exec::OperationSettings SettingsOf(const Case& test) {
  exec::OperationSettings out = test.settings;
  out.int8_pages = HasInt8Pages(test);
  return out;
}

}  // namespace

std::optional<CaseResult> RefusalAt(const Case& test) {
  if (test.features.custom_blocks &&
      !test.operation->Takes(exec::Input::kBlockTable)) {
    return std::nullopt;
  }
  const exec::SimMesh mesh(test.mesh);
  exec::Machine machine(mesh);
  const exec::OperationOutcome outcome = test.operation->run(
      machine, HollowProblem(test), test.specs, SettingsOf(test));
  if (!outcome.unsupported) return std::nullopt;
  CaseResult out;
  out.status = Status::kUnsupported;
  out.reason = outcome.unsupported->message;
  out.help = outcome.unsupported->help;
  out.axis = outcome.unsupported->axis;
  out.remarks = outcome.remarks;
  return out;
}

exec::SentBytes SentAt(const Case& test) {
  const exec::SimMesh mesh(test.mesh);
  const exec::AttentionProblem problem = HollowProblem(test);
  const exec::OperationSettings settings = SettingsOf(test);
  exec::Traffic traffic(mesh, problem, test.specs, settings);
  test.operation->bytes(traffic);
  return traffic.sent();
}

}  // namespace shardc::verify
